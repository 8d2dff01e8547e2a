"""The body of ``relay inventory``: what tests a tree has, by syntax alone, and how long it took to find out."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from relay.cli.select import LocalRepository
from relay.cli.select_text import print_line
from relay.cli.terminal import Terminal
from relay.mirror.git import GitTree
from selector.discover import DirectoryCache, Inventory, take
from selector.discover.features import Features
from selector.discover.imports import TESTS
from selector.discover.inventory import is_inventoried
from selector.discover.records import MAKES
from selector.model import Tree
from selector.trees import DirTree

_CALL = re.compile(rf"^(?![ \t]*(?:#|def |from |import )).*\b{MAKES}\s*\(".encode(), re.MULTILINE)

_LONG_STRING = re.compile(rb'''("""|\'\'\').*?\1''', re.DOTALL)


def run(
    folder: Path, revision: str | None, cache: Path | None, *, as_json: bool, console: Console | None = None
) -> int:
    """Prints the inventory of a folder, or of a commit of the git repository in it. Always 0; what cannot be used is
    raised: TreeError, SettingsError, UpstreamGone."""
    began = time.perf_counter()
    if revision is None:
        value = taken(DirTree(folder, only=is_inventoried), cache, began)
    else:
        repository = LocalRepository(folder)
        with GitTree(repository, repository.commit(revision)) as tree:
            value = taken(tree, cache, began)
    out = console if console is not None else Terminal()
    if as_json:
        out.file.write(json.dumps(value, indent=1) + "\n")
    else:
        _print(value, out)
    return 0


def taken(tree: Tree, cache: Path | None, began: float) -> dict[str, Any]:
    """The counts, as plain values; ``seconds`` from ``began`` (``time.perf_counter``) to the whole inventory, without
    the counting."""
    tree.paths()
    listed = time.perf_counter()
    inventory = take(tree, DirectoryCache(cache) if cache is not None else None)
    taken_at = time.perf_counter()
    found = {
        **counts(inventory, tree),
        "features": Features(inventory).counts(test for test, _, _ in inventory.tests()),
    }
    done = time.perf_counter()
    return {
        **found,
        "problems": [{"file": path, "reason": reason} for path, reason in inventory.problems()],
        "seconds": round(taken_at - began, 3),
        "timings": {
            "list": round(listed - began, 3),
            "records": round(taken_at - listed, 3),
            "counts": round(done - taken_at, 3),
        },
    }


def counts(inventory: Inventory, tree: Tree) -> dict[str, int]:
    """Files, classes and methods under ``test/``.

    ``test_classes`` have test methods of their own; ``test_methods`` are those that are written, ``nested_methods``
    those of them in classes inside of classes or functions; ``inherited_tests`` and ``made_tests`` are further tests
    that classes inherit and that loops and factories make, ``made_by_pattern`` places that make tests under names that
    only running them tells; ``instantiated_classes`` are made once a device;
    ``instantiate_calls`` are the calls that do so, those inside of functions included.
    """
    records = {path: record for path, record in inventory.files.items() if path.startswith(TESTS)}
    parsed = {path: record for path, record in records.items() if not record.problem}
    classes = [cls for record in parsed.values() for cls in record.classes.values()]
    how = Counter(known.how for path in records for known in inventory.known(path).values())
    calling = {
        path: sum(len(cls.instantiated) for cls in record.classes.values())
        for path, record in parsed.items()
        if MAKES in record.mentions
    }
    return {
        "files": len(records),
        "parsed_files": len(parsed),
        "test_files": sum(1 for path in records if _is_test_file(path)),
        "test_classes": sum(1 for cls in classes if cls.tests),
        "test_methods": sum(record.tests for record in parsed.values()),
        "nested_methods": sum(record.tests for record in parsed.values()) - inventory.count,
        "inherited_tests": how["inherited"],
        "made_tests": how["made"],
        "made_by_pattern": sum(1 for _ in inventory.patterns()),
        "instantiated_classes": sum(1 for cls in classes if cls.instantiated),
        "instantiate_calls": _calls(tree, calling),
    }


def _is_test_file(path: str) -> bool:
    return path.rpartition("/")[2].startswith("test_")


def _calls(tree: Tree, known: Mapping[str, int]) -> int:
    """``known``: calls of module-level classes, by file. Others are looked for in the text, where programs that tests
    hold in strings must not count."""
    total = 0
    for path, at_least in known.items():
        text = tree.read(path)
        found = len(_CALL.findall(text))
        if found > at_least:
            found = max(at_least, len(_CALL.findall(_LONG_STRING.sub(b"", text))))
        total += found
    return total


def _print(value: dict[str, Any], console: Console) -> None:
    rows = (
        ("Python files under test/", f"{value['files']}, {value['parsed_files']} of them parsed"),
        ("named test_*.py", value["test_files"]),
        ("test methods", f"{value['test_methods']} in {value['test_classes']} classes"),
        ("inherited, made by code", f"{value['inherited_tests']}, {value['made_tests']}"),
        ("tests that use", ", ".join(f"{name} {number}" for name, number in value["features"].items())),
        ("device-generic classes", f"{value['instantiated_classes']}, by {value['instantiate_calls']} calls"),
        ("seconds", f"{value['seconds']:.2f} ({value['timings']['list']:.2f} of them to list the files)"),
    )
    for name, text in rows:
        print_line(console, f"{name:<26}", str(text))
    for problem in value["problems"]:
        print_line(console, "not readable  ", f"{problem['file']}: {problem['reason']}")
