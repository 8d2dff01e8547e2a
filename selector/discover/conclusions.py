"""What follows from all findings: a decision a changed path, the widening, the smoke set, a decision a test."""

from __future__ import annotations

from collections.abc import Sequence

from selector.discover.filekinds import FileKind
from selector.discover.findings import Findings
from selector.discover.rules import smoke
from selector.model import Change, Decision, Evidence, FileChange, Stage, TestId

MAX_WIDENED = 8_000
"""tests that a widening adds at most; a full tree has some 7,000 device-generic ones"""

_NOTHING = {
    "cannot-matter": "pages or upstream's own CI alone, which no test reads",
    "cosmetic": "comments, formatting or modes alone, which no test tells",
}
"""what no test can tell, by the code of its decision"""


def conclude(findings: Findings, analysed: Sequence[tuple[FileChange, FileKind]]) -> None:
    """One decision a changed path: what it reaches, or that nothing could be said about it."""
    reached = findings.reached_by_path()
    unmapped = {fact.path for fact in findings.unmapped}
    decided = {decision.subject for decision in findings.decisions}
    for file, kind in analysed:
        count = reached.get(file.path, 0)
        if file.path in decided:
            continue
        if file.path in unmapped:
            facts = [fact for fact in findings.unmapped if fact.path == file.path]
            text = f"reaches {_tests(count)}, and more that no rule can name: {facts[0].detail}"
            findings.decide(file.path, "widened", "unmapped-change", text, *facts[:10])
        elif count:
            findings.decide(file.path, "mapped", "mapped", f"reaches {_tests(count)}")
        elif kind is FileKind.TEST:
            findings.decide(file.path, "no-impact", "no-test-reached", "no test of this tree reaches what changed here")
        else:
            findings.not_mapped(file.path, "no test was found to reach this change")
            text = "no test was found to reach this change"
            findings.decide(file.path, "widened", "unmapped-change", text)


def smoke_set(findings: Findings, change: Change, named: Sequence[TestId]) -> None:
    """A change of pages, of upstream's own CI and of comments alone runs the smoke set, so that a run shows that all is
    well."""
    codes = {decision.code for decision in findings.decisions}
    if change.files and codes and codes <= set(_NOTHING):
        why = f"the change holds {', and '.join(what for code, what in _NOTHING.items() if code in codes)}"
        count = smoke.smoke(findings, named, why)
        if count:
            findings.decide("change", "smoke", "smoke", f"{why}: {_tests(count)} of the smoke set")


def widen(findings: Findings) -> bool:
    """Adds every device-generic test (every test, where there are none) when something could not be mapped; of more
    than the bound those first that stand first in their files, and it says how many are left out."""
    facts = findings.unmapped
    if not facts:
        return False
    inventory = findings.inventory
    generic = [
        (place, test)
        for path in sorted(inventory.files)
        for place, (test, cls, _) in enumerate(inventory.tests(path))
        if cls.instantiated
    ]
    kind = "device-generic tests" if generic else "tests"
    chosen = [test for _, test in generic] or [test for test, _, _ in inventory.tests()]
    left = len(chosen) - MAX_WIDENED
    if left > 0:
        chosen = [test for _, test in sorted(generic)[:MAX_WIDENED]] or chosen[:MAX_WIDENED]
    paths = list(dict.fromkeys(fact.path or "" for fact in facts))
    shown = ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
    for test in chosen:
        findings.add(test, "unmapped-change", Evidence("unmapped", f"{facts[0].detail}", facts[0].path))
    some = f"all {len(chosen)} {kind}" if left <= 0 else f"{len(chosen)} of {len(chosen) + left} {kind} (the bound)"
    text = f"{shown}: no rule can name every test these reach, so {some} are in the selection"
    findings.decide("change", "widened", "unmapped-change", text, *facts[:20])
    return True


def per_test(findings: Findings) -> None:
    """A decision for each test that more than the widening has put in."""
    for impact in findings.impacts():
        if impact.codes != ("unmapped-change",):
            first = impact.evidence[0]
            reason = first.detail if first.detail.startswith(impact.test.cls) else f"the test {first.detail}"
            findings.decisions.append(
                Decision(
                    Stage.DISCOVER,
                    str(impact.test),
                    "impacted",
                    impact.codes[0],
                    reason,
                    impact.evidence,
                    impact.weight,
                )
            )


def _tests(count: int) -> str:
    return f"{count} test" + ("" if count == 1 else "s")
