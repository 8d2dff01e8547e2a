"""Tests of the files that were measured to run a changed source file."""

from __future__ import annotations

from selector.discover.findings import Findings
from selector.discover.measured import MeasuredLinks
from selector.model import Evidence, FileChange

MAX_FILES = 40
"""test files that run a source beyond which the link says nothing: nearly everything imports it"""
_SHARP = 5
"""test files up to which each of them is weighed in full"""


def measured(file: FileChange, links: MeasuredLinks, findings: Findings) -> None:
    """A weak hint: it never stands for the rules that could not map something."""
    tests = {path: weight for path, weight in links.of(file.path).items() if path in findings.inventory.files}
    if not 0 < len(tests) <= MAX_FILES:
        return
    share = min(1.0, _SHARP / len(tests))
    for path, weight in sorted(tests.items()):
        text = f"{path} was measured to run {file.path} (weight {weight:g}, one of {len(tests)} files that do)"
        fact = Evidence("measured", text, file.path)
        for test in findings.inventory.known(path):
            findings.add(test, "measured", fact, weight * share)
