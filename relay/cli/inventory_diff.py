"""The body of ``relay inventory diff``: which tests two trees have, and what of each differs."""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console

from relay.cli.select_text import print_line
from relay.cli.terminal import Terminal
from relay.cli.trees import inventoried_tree
from selector.discover import DirectoryCache, take
from selector.discover.diff import Difference, Side, compare
from selector.discover.fingerprints import PARTS

SHOWN = 40
"""rows of one kind on a terminal; the rest is counted"""
NAMED = 3
"""tests of one file that are named where all of them differ for the same reason"""


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
    with inventoried_tree(old, upstream) as before, inventoried_tree(new, upstream) as after:
        first = Side(before, take(before, kept))
        found = compare(first, Side(after, take(after, kept, first.inventory)))
    value = {**to_value(found), "seconds": round(time.perf_counter() - began, 3)}
    out = console if console is not None else Terminal()
    if as_json:
        out.file.write(json.dumps(value, indent=1) + "\n")
    else:
        _print(value, out)
    return 0


def to_value(found: Difference) -> dict[str, Any]:
    """Plain values. ``parts`` counts tests by the part that differs (a test may count in several); ``drawing``: tests
    that are the same but for an op entry that they draw."""
    changed = [change for change in found.changes if change.parts]
    drawing = [change for change in found.changes if change.content == "opinfo" and not change.parts]
    parts = Counter(part for change in changed for part in change.parts)
    by_kind = {kind: [str(c.test) for c in found.changes if c.kind == kind] for kind in ("new", "gone", "cosmetic")}
    renamed = [change for change in found.changes if change.was is not None]
    return {
        "counts": {
            "new": len(by_kind["new"]),
            "gone": len(by_kind["gone"]),
            "renamed": len(renamed),
            "changed": len(changed),
            "drawing": len(drawing),
            "cosmetic": len(by_kind["cosmetic"]),
            "same": found.unchanged,
            "broad_helpers": len(found.broad),
            "op_entries": len(found.entries),
        },
        "parts": {part: parts[part] for part in PARTS if parts[part]},
        "renamed": [{"old": str(change.was), "new": str(change.test), "how": change.move} for change in renamed],
        "changed": [
            {"test": str(change.test), "parts": {part: list(names) for part, names in change.parts.items()}}
            for change in changed
        ],
        "drawing": [{"test": str(change.test), "ops": list(change.ops)} for change in drawing],
        **by_kind,
        "broad_helpers": dict(found.broad),
        "op_entries": {label: list(entry.aspects) for label, entry in found.entries.items()},
    }


def _print(value: dict[str, Any], console: Console) -> None:
    words = {"drawing": "for ops alone", "broad_helpers": "broad helpers", "op_entries": "op entries"}
    counts = ", ".join(f"{number} {words.get(name, name)}" for name, number in value["counts"].items())
    print_line(console, "tests         ", counts)
    if value["parts"]:
        print_line(console, "what differs  ", ", ".join(f"{part} {n}" for part, n in value["parts"].items()))
    rows = {
        "op entry": [f"{label}  {', '.join(aspects)}" for label, aspects in value["op_entries"].items()],
        "helper": [f"{key}  reached by {tests} tests" for key, tests in value["broad_helpers"].items()],
        "new": value["new"],
        "gone": value["gone"],
        "renamed": [f"{one['old']} -> {one['new']}" for one in value["renamed"]],
        "changed": _alike((one["test"], _said(one["parts"])) for one in value["changed"]),
        "for ops": _alike((one["test"], f"draws {', '.join(one['ops'])}") for one in value["drawing"]),
        "cosmetic": value["cosmetic"],
    }
    for kind, texts in rows.items():
        for text in texts[:SHOWN]:
            print_line(console, f"{kind:<9}", f" {text}")
        if len(texts) > SHOWN:
            print_line(console, f"{kind:<9}", f" and {len(texts) - SHOWN} more (--json names all)")
    print_line(console, "seconds       ", f"{value['seconds']:.2f}")


def _alike(tests: Iterable[tuple[str, str]]) -> list[str]:
    """A row a test and why; tests of one file for the same reason are a row together."""
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for test, why in tests:
        path, _, name = test.partition("::")
        groups[path, why].append(name)
    return [
        f"{path}::{names[0]}  {why}" if len(names) == 1 else f"{path}  {why}: {len(names)} tests, {_some(names)}"
        for (path, why), names in groups.items()
    ]


def _some(names: list[str]) -> str:
    return ", ".join(names[:NAMED]) + (", ..." if len(names) > NAMED else "")


def _said(parts: dict[str, list[str]]) -> str:
    return "; ".join(f"{part}: {', '.join(n or 'own' for n in names[:3])}" for part, names in parts.items())
