"""Tests whose own code a change edits, adds, renames or takes away."""

from __future__ import annotations

from collections import defaultdict

from selector.discover.changes import PythonChange, tests_of
from selector.discover.findings import Findings
from selector.model import Evidence, TestId


def renamed_tests(changes: list[PythonChange]) -> dict[TestId, TestId]:
    """New tests that are old ones under another name (same body, nothing else like it): new id -> old id."""
    gone: dict[str, list[TestId]] = defaultdict(list)
    fresh: dict[str, list[TestId]] = defaultdict(list)
    for change in changes:
        before, after = tests_of(change.old), tests_of(change.new)
        old_path = change.file.old_path or change.path
        for (cls, name), own in before.items():
            if (cls, name) not in after or old_path != change.path:
                gone[own].append(TestId(old_path, cls, name))
        for (cls, name), own in after.items():
            if (cls, name) not in before or old_path != change.path:
                fresh[own].append(TestId(change.path, cls, name))
    return {new[0]: gone[own][0] for own, new in fresh.items() if len(new) == 1 and len(gone[own]) == 1}


def test_file(change: PythonChange, renamed: dict[TestId, TestId], findings: Findings) -> None:
    """New, edited, renamed and gone tests of one file under ``test/``. What helpers reach is ``spread``'s part."""
    before, after = tests_of(change.old), tests_of(change.new)
    old_path = change.file.old_path or change.path
    came_from = set(renamed.values())
    for test, known in findings.inventory.known(change.path).items():
        if known.how != "written":
            continue
        found = known.method
        at = (test.cls, test.method)
        key = f"{test.cls}.{test.method}"
        if test in renamed:
            code, text = "renamed-test", f"was {renamed[test]}"
        elif at not in before:
            code, text = "new-test", f"{key} is new in this change"
        elif before[at] != after.get(at):
            code, text = "edited-test", f"{key} itself is edited"
        else:
            continue
        findings.add(test, code, Evidence(code, text, change.path, found.line, key))
        for other in findings.inventory.derived(change.path, key):
            fact = Evidence(code, f"runs {key} of {change.path}: {text}", change.path, found.line, key)
            findings.add(other, code, fact)
    for cls, name in sorted(before.keys() - after.keys()):
        gone = TestId(old_path, cls, name)
        if gone not in came_from:
            place = Evidence("gone-test", f"{cls}.{name} is in the base only", old_path, symbol=f"{cls}.{name}")
            findings.decide(str(gone), "gone", "gone-test", "the change removes this test: it cannot run", place)
