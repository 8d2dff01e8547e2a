"""The folders that hold the tests of a changed part of torch, and files of others that are named after it."""

from __future__ import annotations

from collections.abc import Iterable

from selector.discover.filekinds import area_of, in_area
from selector.discover.findings import Findings
from selector.model import Evidence


def areas(paths: Iterable[str], findings: Findings) -> None:
    """The tests of the changed parts of torch; one pass for all paths."""
    prefixes: dict[str, str] = {}
    for path in paths:
        for prefix in area_of(path):
            prefixes.setdefault(prefix, path)
    for test, _, _ in findings.inventory.tests() if prefixes else ():
        for prefix, path in prefixes.items():
            if in_area(test.file, (prefix,)):
                holds = f"{prefix} holds" if test.file.startswith(prefix) else "a file of this name is among"
                text = f"{holds} the tests of this part of torch"
                findings.add(test, "area", Evidence("area", text, path))
