"""Tests that merged changes of the same file broke."""

from __future__ import annotations

from collections.abc import Iterable

from selector.discover.findings import Findings
from selector.discover.measured import PastFailure
from selector.model import Change, Evidence


def past_failures(change: Change, table: Iterable[PastFailure], findings: Findings) -> None:
    """By the path alone; a test that is no more in the tree is left out."""
    changed = {file.path for file in change.files} | {file.old_path for file in change.files if file.old_path}
    for one in table:
        if one.path in changed and findings.inventory.find(one.test) is not None:
            times = "once" if one.times == 1 else f"{one.times} times"
            text = f"broken {times} by commits of trunk that changed {one.path}"
            findings.add(one.test, "failed-before", Evidence("history", text, one.path), 0.5 + 0.1 * one.times)
