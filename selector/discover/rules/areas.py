"""The folders that hold the tests of a changed part of torch."""

from __future__ import annotations

from collections.abc import Iterable

from selector.discover.filekinds import area_of
from selector.discover.findings import Findings
from selector.model import Evidence


def areas(paths: Iterable[str], findings: Findings) -> None:
    """The folders that hold the tests of the changed parts of torch; one pass for all paths."""
    prefixes: dict[str, str] = {}
    for path in paths:
        for prefix in area_of(path):
            prefixes.setdefault(prefix, path)
    for test, _, _ in findings.inventory.tests() if prefixes else ():
        for prefix, path in prefixes.items():
            if test.file.startswith(prefix):
                text = f"{prefix} holds the tests of this part of torch"
                findings.add(test, "area", Evidence("area", text, path))
