"""What a plan expected, beside what happened: said, and neither an excuse nor a fault."""

from __future__ import annotations

from dataclasses import replace

import pytest

from selector.model import Mode, Outcome, PlannedTest, RunPlan, Runtime, RuntimeKind, Side, TestId, VariantResult
from selector.plan.codes import CONFIG, HISTORY, LIMIT
from selector.verify import verify
from selector.verify.expected import CODE

TEST = TestId("test/test_x.py", "TestX", "test_a")
FINE = TestId("test/test_x.py", "TestX", "test_fine")


def plan(code: str) -> RunPlan:
    tests = (
        PlannedTest(TEST, Mode.XFAIL, 1.0, 1.0, ("helper",), mode_code=code),
        PlannedTest(FINE, Mode.MANDATORY_SUCCESS, 1.0, 1.0, ("helper",)),
    )
    return RunPlan(Runtime(RuntimeKind.TESTS_ONLY, "2.13.0"), tests, ())


def result(outcome: str, message: str | None = None, test: TestId = TEST, side: Side = Side.HEAD) -> VariantResult:
    return VariantResult(test, f"{test.method}_toy", Outcome(outcome), side=side, kernels=1, message=message)


WHY = dict.fromkeys((TEST, FINE), ("helper", ()))
PASSED = result("passed", test=FINE)
BAD = result("failed", "AssertionError: 1 != 2")


@pytest.mark.parametrize("code", [HISTORY, LIMIT])
def test_an_expected_failure_that_the_base_has_too_is_said_to_be_expected(code: str) -> None:
    verdict = verify(WHY, [BAD, PASSED], [replace(BAD, side=Side.BASE)], (), plan(code))
    assert (verdict.conclusion.value, verdict.code) == ("success", "verify-passed")
    (said,) = [d for d in verdict.decisions if d.code == "verify-pre-existing"]
    assert said.reason.endswith(f"({code})")


def test_an_expectation_excuses_no_failure_that_the_base_does_not_have() -> None:
    verdict = verify(WHY, [BAD, PASSED], [result("passed", side=Side.BASE)], (), plan(HISTORY))
    assert (verdict.conclusion.value, verdict.code) == ("failure", "verify-regression")
    (said,) = [d for d in verdict.decisions if d.code == "verify-regression" and d.subject == BAD.key]
    assert "which the runs without the change do not bear out" in said.reason


def test_an_expectation_alone_excuses_nothing_where_there_is_no_base() -> None:
    verdict = verify(WHY, [BAD, PASSED], [], (), plan(HISTORY))
    assert (verdict.conclusion.value, verdict.code) == ("neutral", "verify-unconfirmed")
    assert any("which alone excuses nothing" in d.reason for d in verdict.decisions)


def test_an_unexpected_pass_is_named_and_costs_nothing() -> None:
    verdict = verify(WHY, [result("passed"), PASSED], [], (), plan(HISTORY))
    assert (verdict.conclusion.value, verdict.code) == ("success", "verify-passed")
    (said,) = [d for d in verdict.decisions if d.code == CODE]
    assert (said.subject, said.verdict) == (str(TEST), "passes")
    assert "this change mends it, or trunk has since" in said.reason
    half = [result("passed"), replace(BAD, variant="test_a_toy_float32"), PASSED]
    assert CODE not in {d.code for d in verify(WHY, half, [], (), plan(HISTORY)).decisions}, "not as a whole"
    assert CODE not in {d.code for d in verify(WHY, [result("self_skipped"), PASSED], [], (), plan(LIMIT)).decisions}


def test_what_a_config_expects_is_the_workers_to_say() -> None:
    verdict = verify(WHY, [result("passed"), PASSED], [], (), plan(CONFIG))
    assert CODE not in {d.code for d in verdict.decisions}
    verdict = verify(WHY, [BAD, PASSED], [replace(BAD, side=Side.BASE)], (), plan(CONFIG))
    assert not any("expected by" in d.reason for d in verdict.decisions)
