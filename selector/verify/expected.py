"""What a plan expected of its tests, held against what they did.

An expectation exonerates nobody and blames nobody: that is for runs without the change. It is said beside a judgement,
and what passes against it is named, so that neither a known failure nor its end is a surprise. What a config expects is
the worker's to apply (``VariantResult.mode``) and is not looked at here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from selector.model import Decision, Evidence, Mode, Outcome, PlannedTest, RunPlan, Stage, TestId, VariantResult
from selector.plan.codes import HISTORY, LIMIT
from selector.verify.judgements import BLAMES, EXONERATIONS
from selector.verify.text import NAME, clean, count

CODE = "verify-unexpected-pass"
_WHOSE: Mapping[str, str] = {HISTORY: "trunk's results", LIMIT: "what the device lacks"}


def expected_failures(plan: RunPlan) -> dict[TestId, PlannedTest]:
    """The planned tests that no config, but the sheet or trunk expects to fail."""
    return {one.test: one for one in plan.tests if one.mode is Mode.XFAIL and one.mode_code in _WHOSE}


def said_beside(code: str, expected: PlannedTest | None) -> str:
    """The end of a judgement's reason, for a failure of a test of which something was expected."""
    if expected is None:
        return ""
    said = f"; expected by {_WHOSE[expected.mode_code]} ({expected.mode_code})"
    if code in EXONERATIONS:
        return said
    if code in BLAMES:
        return f"{said}, which the runs without the change do not bear out"
    return f"{said}, which alone excuses nothing"


def unexpected_passes(plan: RunPlan, head: Sequence[VariantResult]) -> list[Decision]:
    """Tests that were expected to fail as a whole, and of which every executed variant passed. It is this run's
    evidence alone: the change may be the one that mends them, and is not merged."""
    expected = expected_failures(plan)
    by_test: dict[TestId, list[VariantResult]] = {}
    for result in head:
        if result.test in expected and result.outcome not in (Outcome.SKIPPED, Outcome.SELF_SKIPPED):
            by_test.setdefault(result.test, []).append(result)
    found = []
    for test, results in sorted(by_test.items()):
        if all(result.outcome is Outcome.PASSED for result in results):
            whose = _WHOSE[expected[test].mode_code]
            reason = f"expected to fail by {whose}, and passes: this change mends it, or trunk has since"
            fact = Evidence("result", f"{count(len(results), 'variant')} passed")
            found.append(Decision(Stage.VERIFY, clean(str(test), NAME), "passes", CODE, reason, (fact,), 0.5))
    return found
