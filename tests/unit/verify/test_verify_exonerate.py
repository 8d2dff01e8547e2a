"""Who is blamed and who is exonerated, by re-runs, labs, trunk and quarantine; and what a verdict asks for first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from selector.model import Mode, Outcome, PlannedTest, RunPlan, Runtime, RuntimeKind, Side, TestId, VariantResult
from selector.verify import Again, Judge, Quarantine, Sample, Trusted, next_step, verify
from selector.verify.causes import signature
from selector.verify.flakes import RULE

A = TestId("test/test_x.py", "TestX", "test_a")
N, ALL = RULE.first, RULE.first + RULE.more
OTHER = VariantResult(A, "test_a_spyre_int8", Outcome.PASSED, kernels=2)
BAD = VariantResult(A, "test_a_spyre", Outcome.FAILED, kernels=2, message="Error: no", worker="w1")
KEY = BAD.key
PLAN = RunPlan(
    Runtime(RuntimeKind.OVERLAY, "2.13.0"), (PlannedTest(A, Mode.MANDATORY_SUCCESS, 1.0, 1.0, ("helper",)),), ()
)
LIMIT = "RuntimeError: Could not run 'aten::foo' with arguments from the 'spyre' backend"


def runs(side: Side, total: int, failed: int, **over: Any) -> list[VariantResult]:
    values = {"side": side, **over}
    return [
        replace(BAD, outcome=Outcome.FAILED if i < failed else Outcome.PASSED, attempt=i, **values)
        for i in range(total)
    ]


def again(head: tuple[int, int], base: tuple[int, int]) -> Again:
    return Again((*runs(Side.AGAIN, *head), *runs(Side.BASE_AGAIN, *base)))


def base(outcome: str = "passed", **over: Any) -> VariantResult:
    return replace(BAD, side=Side.BASE, outcome=Outcome(outcome), **over)


def judged(
    head: VariantResult, bases: list[VariantResult], more: Again, trusted: Trusted | None = None, code: str = "helper"
) -> tuple[str, str, str]:
    found = verify({A: (code, ())}, [head, OTHER], bases, (), PLAN, more, trusted)
    decision = next(d for d in found.decisions if d.subject == head.key)
    return decision.code, found.conclusion.value, decision.reason


FLAKY = Trusted({KEY: (Sample("c1", False, 2.0), Sample("c1", True, 1.0, "x"))})
HELD = Trusted(quarantined=(Quarantine(A, "", "races", 100.0, "a/b#1"),), now=50.0)


@pytest.mark.parametrize(
    ("head", "without", "trusted", "code", "conclusion"),
    [
        ((N, N), (N, 0), None, "verify-regression", "failure"),
        ((ALL, 10), (ALL, 0), None, "verify-made-flaky", "failure"),
        ((N, 1), (N, 2), None, "verify-flaky", "success"),
        ((N, N), (N, N), None, "verify-pre-existing", "success"),
        ((N, 0), (N, 0), None, "verify-flaky-unproven", "neutral"),
        ((ALL, 3), (ALL, 0), None, "verify-flaky-unproven", "neutral"),
        ((N, 0), (N, 0), FLAKY, "verify-flaky-on-trunk", "success"),
        ((N, 0), (N, 0), HELD, "verify-quarantined", "success"),
        ((N, 0), (N, 0), replace(HELD, now=101.0), "verify-flaky-unproven", "neutral"),
        ((N, N), (N, 0), FLAKY, "verify-regression", "failure"),
        ((N, N), (N, 0), HELD, "verify-regression", "failure"),
        ((N, N), (1, 0), None, "verify-unconfirmed", "neutral"),
    ],
)
def test_re_runs_decide(
    head: tuple[int, int], without: tuple[int, int], trusted: Trusted | None, code: str, conclusion: str
) -> None:
    assert judged(BAD, [base()], again(head, without), trusted)[:2] == (code, conclusion)


def test_without_a_base_trunks_newest_runs_may_tell_and_only_in_the_same_way() -> None:
    same = Trusted({KEY: (Sample("c2", True, 2.0, signature(BAD)), Sample("c1", False, 1.0))}, {KEY: "c2" * 20})
    code, conclusion, reason = judged(BAD, [], Again(), same)
    assert (code, conclusion) == ("verify-broken-on-trunk", "success")
    assert reason.endswith("(broken on trunk by c2c2c2c2c2)")
    other = Trusted({KEY: (Sample("c2", True, 2.0, "another"),)})
    assert judged(BAD, [], Again(), other)[0] == "verify-unconfirmed"
    mended = Trusted({KEY: (Sample("c2", False, 2.0), Sample("c1", True, 1.0, signature(BAD)))})
    assert judged(BAD, [], Again(), mended)[0] == "verify-unconfirmed"


def test_labs_that_disagree_are_a_conflict_and_no_regression() -> None:
    here = replace(BAD, lab="a")
    more = Again(
        (
            *runs(Side.AGAIN, N, N, lab="a"),
            *runs(Side.BASE_AGAIN, N, 0, lab="a"),
            *runs(Side.AGAIN, N, 0, lab="b"),
        )
    )
    code, conclusion, reason = judged(here, [base(lab="a")], more)
    assert (code, conclusion) == ("verify-lab-conflict", "neutral")
    assert f"fails in a ({N + 1} runs), passes in b ({N} runs)" in reason
    apart = Again((*runs(Side.AGAIN, N, N, lab="a"), *runs(Side.BASE_AGAIN, N, 0, lab="b")))
    assert judged(here, [base(lab="b")], apart)[0] == "verify-lab-conflict"
    alike = Again((*more.results[: 2 * N], *runs(Side.AGAIN, N, N, lab="b")))
    assert judged(here, [base(lab="a")], alike)[0] == "verify-regression"


def test_a_limit_of_the_device_excuses_edited_tests_alone_and_never_an_environments_fault() -> None:
    limited = replace(BAD, message=LIMIT)
    broken = Again((*runs(Side.AGAIN, N, N, message=LIMIT), *runs(Side.BASE_AGAIN, N, 0)))
    assert judged(limited, [base()], broken, code="edited-test")[:2] == ("verify-device-limit", "neutral")
    assert judged(limited, [base()], broken, code="helper")[:2] == ("verify-regression", "failure")
    spoilt = replace(BAD, message=f"{LIMIT}: No space left on device")
    assert judged(spoilt, [base()], Again(), code="edited-test")[0] == "verify-infrastructure"


def test_what_another_worker_got_replaces_what_an_environment_spoilt() -> None:
    spoilt = replace(BAD, message="OSError: No space left on device")
    fine = Again((replace(BAD, side=Side.AGAIN, outcome=Outcome.PASSED, worker="w2"),))
    found = verify({A: ("helper", ())}, [spoilt, OTHER], [], (), PLAN, fine)
    assert (found.conclusion.value, found.causes) == ("success", ())
    assert [d.code for d in found.decisions if d.subject == KEY] == ["verify-ran-elsewhere"]
    assert "worker w1: the worker's disk is full" in found.warnings
    again_full = Again((replace(spoilt, side=Side.AGAIN, worker="w2"),))
    assert verify({A: ("helper", ())}, [spoilt], [], (), PLAN, again_full).code == "verify-infrastructure"


def step(head: list[VariantResult], bases: list[VariantResult], more: Again, done: int) -> Any:
    return next_step(head, bases, more, (), PLAN, Judge({}, more.base(bases), ()), done)


def test_a_verdict_asks_in_rounds_and_for_nothing_twice() -> None:
    spoilt = replace(BAD, variant="test_a_full", message="No space left on device")
    first = step([BAD, spoilt], [], Again(), 0)
    assert (first.round, first.base, first.elsewhere, first.again) == (1, (KEY,), (spoilt.key,), ())
    assert step([BAD], [base()], Again(), 0).round == 2, "what trunk left need not be run"
    second = step([BAD], [base()], Again(), 1)
    assert (second.round, second.again, second.repeat) == (2, (KEY,), RULE.first)
    assert step([BAD], [base("failed")], Again(), 1) is None, "it fails there in the same way"
    assert step([BAD], [base("failed", message="Another: thing")], Again(), 1).again == (KEY,)
    third = step([BAD], [base()], again((N, 2), (N, 0)), 2)
    assert (third.round, third.again, third.repeat) == (3, (KEY,), RULE.more)
    assert step([BAD], [base()], again((N, N), (N, 0)), 2) is None
    assert step([BAD], [base()], again((N, 2), (N, 0)), 3) is None, "three rounds are all"


def test_many_failures_of_one_cause_share_what_some_of_them_show() -> None:
    many = [replace(BAD, variant=f"test_a_{i}") for i in range(100)]
    bases = [replace(r, side=Side.BASE, outcome=Outcome.PASSED) for r in many]
    asked = step(many, bases, Again(), 1)
    assert len(asked.again) == 40
    chosen = [r for r in many if r.key in asked.again]
    more = Again(
        tuple(
            replace(r, side=side, outcome=outcome, attempt=i)
            for r in chosen
            for side, outcome in ((Side.AGAIN, Outcome.FAILED), (Side.BASE_AGAIN, Outcome.PASSED))
            for i in range(N)
        )
    )
    found = verify({A: ("helper", ())}, many, bases, (), PLAN, more)
    assert found.counts["regressions"] == 100
    assert len(found.groups) == 1
    odd = replace(many[99], message="Quite: another")
    alone = verify({A: ("helper", ())}, [*many[:99], odd], bases, (), PLAN, more)
    assert (alone.counts["regressions"], alone.counts["unconfirmed"]) == (99, 1)


def test_a_hang_is_run_again_though_it_is_dear_and_alone() -> None:
    hangs = [replace(BAD, variant=f"test_h{i}", outcome=Outcome.TIMED_OUT, seconds=60.0) for i in range(5)]
    bases = [replace(r, side=Side.BASE, outcome=Outcome.PASSED) for r in hangs]
    assert len(step(hangs, bases, Again(), 1).again) == 1
