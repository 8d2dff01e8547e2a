"""The body of ``relay inventory diff``: which tests two trees have, and what of each differs."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from relay.cli_select import LocalRepository
from relay.cli_select_text import print_line
from relay.mirror.git import GitTree
from selector.discover import DirectoryCache, take
from selector.discover.difference import Difference, difference
from selector.discover.fingerprints import PARTS
from selector.discover.inventory import is_inventoried
from selector.model import Tree
from selector.trees import DirTree

SHOWN = 40
"""tests of one kind that are named on a terminal; the rest is counted"""


def run(
    old: str,
    new: str,
    upstream: Path | None,
    cache: Path | None,
    *,
    as_json: bool,
    console: Console | None = None,
) -> int:
    """Compares two folders, or two revisions of the repository ``upstream``. Always 0; what cannot be used is raised:
    TreeError, SettingsError, UpstreamGone."""
    began = time.perf_counter()
    kept = DirectoryCache(cache) if cache is not None else None
    with _tree(old, upstream) as before, _tree(new, upstream) as after:
        first = take(before, kept)
        found = difference(first, take(after, kept, first))
    value = {**to_value(found), "seconds": round(time.perf_counter() - began, 3)}
    out = console if console is not None else Console()
    if as_json:
        out.file.write(json.dumps(value, indent=1) + "\n")
    else:
        _print(value, out)
    return 0


@contextmanager
def _tree(place: str, upstream: Path | None) -> Iterator[Tree]:
    if upstream is None:
        yield DirTree(Path(place), only=is_inventoried)
        return
    repository = LocalRepository(upstream)
    with GitTree(repository, repository.commit(place)) as tree:
        yield tree


def to_value(found: Difference) -> dict[str, Any]:
    """Plain values. ``parts`` counts tests by the part that differs (a test may count in several)."""
    parts = Counter(part for changed in found.changed.values() for part in changed)
    return {
        "counts": {
            "new": len(found.new),
            "gone": len(found.gone),
            "renamed": len(found.renamed),
            "changed": len(found.changed),
            "same": found.same,
            "library_keys": len(found.library),
            "cosmetic_files": len(found.cosmetic),
        },
        "parts": {part: parts[part] for part in PARTS if parts[part]},
        "new": [str(test) for test in found.new],
        "gone": [str(test) for test in found.gone],
        "renamed": [{"old": str(old), "new": str(new)} for new, old in found.renamed.items()],
        "changed": [
            {"test": str(test), "parts": {part: list(names) for part, names in parts.items()}}
            for test, parts in found.changed.items()
        ],
        "library": list(found.library),
        "cosmetic": list(found.cosmetic),
    }


def _print(value: dict[str, Any], console: Console) -> None:
    counts = ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in value["counts"].items())
    print_line(console, "tests         ", counts)
    if value["parts"]:
        print_line(console, "what differs  ", ", ".join(f"{part} {n}" for part, n in value["parts"].items()))
    rows = {
        "new": value["new"],
        "gone": value["gone"],
        "renamed": [f"{one['old']} -> {one['new']}" for one in value["renamed"]],
        "changed": [f"{one['test']}  {_said(one['parts'])}" for one in value["changed"]],
        "cosmetic": value["cosmetic"],
    }
    for kind, texts in rows.items():
        for text in texts[:SHOWN]:
            print_line(console, f"{kind:<9}", f" {text}")
        if len(texts) > SHOWN:
            print_line(console, f"{kind:<9}", f" and {len(texts) - SHOWN} more (--json names all)")
    print_line(console, "seconds       ", f"{value['seconds']:.2f}")


def _said(parts: dict[str, list[str]]) -> str:
    return "; ".join(f"{part}: {', '.join(n or 'own' for n in names[:3])}" for part, names in parts.items())
