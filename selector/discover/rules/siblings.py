"""On trial: the other tests of a class of which the change edits or adds a test. They share what setUp makes."""

from __future__ import annotations

from selector.discover.changes import PythonChange, tests_of
from selector.discover.findings import Findings
from selector.model import Evidence

SHADOW = True


def siblings(changes: list[PythonChange], findings: Findings) -> None:
    """Every test of such a class, in test files that both sides have."""
    for change in changes:
        before, after = tests_of(change.old), tests_of(change.new)
        touched: dict[str, str] = {}
        for (cls, name), own in sorted(after.items()):
            if before.get((cls, name)) != own:
                touched.setdefault(cls, name)
        for test in findings.inventory.known(change.path) if touched else ():
            if test.cls in touched:
                text = f"stands beside {touched[test.cls]} in {test.cls}"
                findings.add(test, "same-class", Evidence("class", text, change.path, symbol=test.cls))
