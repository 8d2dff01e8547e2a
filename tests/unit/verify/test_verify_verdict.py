"""From results to a verdict that is true."""

import json
from dataclasses import replace

import pytest

from selector.model import (
    Conclusion,
    Decision,
    Evidence,
    LeftOut,
    Mode,
    NotExercised,
    Outcome,
    PlannedTest,
    RunPlan,
    Runtime,
    RuntimeKind,
    Side,
    Stage,
    TestId,
    VariantResult,
    Verdict,
)
from selector.verify import ShardProblem, needs_base, needs_base_tests, report_problems, verify
from selector.verify.serialise import from_map, to_map

A = TestId("test/test_x.py", "TestX", "test_a")
B = TestId("test/test_y.py", "TestY", "test_b")
SEEN = Decision(
    Stage.DISCOVER,
    str(A),
    "impacted",
    "helper",
    "calls weights_like, which the change edits",
    (Evidence("helper", "edited", "test/helpers.py", 3, "weights_like"),),
)
TRIAGED = Decision(Stage.TRIAGE, str(A), "relevant", "engages", "makes tensors on the device")
WHY = {A: ("helper", (SEEN, TRIAGED)), B: (("new-test",), ())}
PLAN = RunPlan(
    Runtime(RuntimeKind.OVERLAY, "2.13.0"),
    (PlannedTest(A, Mode.MANDATORY_SUCCESS, 1.0, 1.0, ("helper",)),),
    (),
)


def head(
    outcome: str = "passed", variant: str = "test_a_spyre_float16", test: TestId = A, **more: object
) -> VariantResult:
    values: dict[str, object] = {"kernels": 3, **more}
    return VariantResult(test, variant, Outcome(outcome), **values)  # type: ignore[arg-type]


def base(outcome: str = "passed", **more: object) -> VariantResult:
    return replace(head(outcome, **more), side=Side.BASE)  # type: ignore[arg-type]


def judge(*results: VariantResult, plan: RunPlan = PLAN, problems: tuple[ShardProblem, ...] = ()) -> Verdict:
    heads = [r for r in results if r.side is Side.HEAD]
    return verify(WHY, heads, [r for r in results if r.side is Side.BASE], problems, plan)


def problem(kind: str, file: str = "", message: str = "boom", side: Side = Side.HEAD) -> ShardProblem:
    return ShardProblem("s1", side, kind, message, file)


GOOD = head()
BAD = head("failed", message="AssertionError: 1 != 2")
OTHER = head(variant="test_a_spyre_float32")

TABLE = [
    ("passes", [GOOD], PLAN, (), "success", "verify-passed"),
    ("regression", [BAD, base()], PLAN, (), "failure", "verify-regression"),
    ("crash", [head("crashed"), base()], PLAN, (), "failure", "verify-regression"),
    ("hang", [head("timed_out"), base()], PLAN, (), "failure", "verify-regression"),
    ("fails on the base too", [BAD, base("failed"), OTHER], PLAN, (), "success", "verify-passed"),
    ("only fails on the base too", [BAD, base("error")], PLAN, (), "neutral", "verify-nothing-passed"),
    ("no base", [BAD, OTHER], PLAN, (), "neutral", "verify-unconfirmed"),
    ("base skipped it", [BAD, base("self_skipped")], PLAN, (), "neutral", "verify-unconfirmed"),
    (
        "base had no disk",
        [BAD, base("error", message="No space left on device")],
        PLAN,
        (),
        "neutral",
        "verify-unconfirmed",
    ),
    (
        "variant is new",
        [BAD, OTHER, base(variant="test_a_spyre_float32")],
        PLAN,
        (),
        "failure",
        "verify-new-test-fails",
    ),
    (
        "test is new to the base",
        [BAD],
        PLAN,
        (problem("unmatched", str(A), side=Side.BASE),),
        "failure",
        "verify-new-test-fails",
    ),
    (
        "base was lost",
        [BAD],
        PLAN,
        (problem("unmatched", str(A), side=Side.BASE), problem("infrastructure", side=Side.BASE)),
        "neutral",
        "verify-unconfirmed",
    ),
    ("no compiler", [head("error", message="sh: g++: not found"), GOOD], PLAN, (), "neutral", "verify-infrastructure"),
    (
        "no service",
        [head("failed", log_tail="x\nConnection refused"), base()],
        PLAN,
        (),
        "neutral",
        "verify-infrastructure",
    ),
    (
        "killed for memory",
        [head("crashed", message="the test process was ended by SIGKILL"), base()],
        PLAN,
        (),
        "neutral",
        "verify-infrastructure",
    ),
    ("shard lost", [GOOD], PLAN, (problem("infrastructure"),), "neutral", "verify-infrastructure"),
    (
        "regression beside a lost shard",
        [BAD, base()],
        PLAN,
        (problem("infrastructure"),),
        "failure",
        "verify-regression",
    ),
    (
        "not exercised",
        [GOOD],
        replace(PLAN, not_exercised=(NotExercised("aten/a.cpp", "needs a build"),)),
        (),
        "neutral",
        "verify-not-exercised",
    ),
    (
        "regression though not all is exercised",
        [BAD, base()],
        replace(PLAN, not_exercised=(NotExercised("aten/a.cpp", "needs a build"),)),
        (),
        "failure",
        "verify-regression",
    ),
    (
        "partial",
        [GOOD],
        replace(PLAN, partial=True, left_out=(LeftOut(B, 1, "full"),)),
        (),
        "neutral",
        "verify-partial",
    ),
    ("never engaged", [head(kernels=0)], PLAN, (), "neutral", "verify-unengaged"),
    ("not metered", [head(kernels=None)], PLAN, (), "neutral", "verify-unengaged"),
    ("all skip themselves", [head("self_skipped")], PLAN, (), "neutral", "verify-nothing-ran"),
    ("nothing planned", [], replace(PLAN, tests=()), (), "neutral", "verify-nothing-to-run"),
    ("no result", [], PLAN, (), "neutral", "verify-incomplete"),
    ("no such test", [], PLAN, (problem("unmatched", str(A)),), "neutral", "verify-incomplete"),
    ("no variant for the device", [], PLAN, (problem("emptied", str(A)),), "neutral", "verify-nothing-ran"),
    ("import fails", [], PLAN, (problem("collection", A.file),), "neutral", "verify-unconfirmed"),
    ("import fails here only", [base()], PLAN, (problem("collection", A.file),), "failure", "verify-import-regression"),
    (
        "import fails on both",
        [],
        PLAN,
        (problem("collection", A.file), problem("collection", A.file, side=Side.BASE)),
        "neutral",
        "verify-nothing-ran",
    ),
    ("expected failure", [head("xfailed", mode=Mode.XFAIL)], PLAN, (), "success", "verify-passed"),
    ("unexpected pass", [head("xpassed", mode=Mode.XFAIL)], PLAN, (), "success", "verify-passed"),
    (
        "unexpected pass of a strict one",
        [head("xpassed", mode=Mode.XFAIL_STRICT), base("xfailed", mode=Mode.XFAIL_STRICT)],
        PLAN,
        (),
        "failure",
        "verify-xpassed-strict",
    ),
]


@pytest.mark.parametrize(
    ("results", "plan", "problems", "conclusion", "code"), [t[1:] for t in TABLE], ids=[t[0] for t in TABLE]
)
def test_verdict(
    results: list[VariantResult], plan: RunPlan, problems: tuple[ShardProblem, ...], conclusion: str, code: str
) -> None:
    verdict = judge(*results, plan=plan, problems=problems)
    assert (verdict.conclusion.value, verdict.code) == (conclusion, code)
    assert verdict.sentence
    assert "\n" not in verdict.sentence
    assert from_map(json.loads(json.dumps(to_map(verdict)))) == verdict


def test_the_sentence_names_counts_first_cause_and_change() -> None:
    verdict = judge(BAD, base(), head("failed", variant="test_a_spyre_float32"), base(variant="test_a_spyre_float32"))
    assert verdict.sentence == (
        "1 test (2 variants) passes without this change and fails with it; first: "
        "TestX::test_a_spyre_float16 (AssertionError: 1 != 2)"
    )
    cause = verdict.causes[0]
    assert (cause.kind, cause.codes, cause.changes) == ("regression", ("helper",), ("test/helpers.py:weights_like",))
    assert cause.why_selected == SEEN.reason


def test_regressions_come_before_old_failures() -> None:
    old = [head("failed", variant="test_a_0"), base("failed", variant="test_a_0")]
    verdict = judge(*old, BAD, base())
    assert [c.kind for c in verdict.causes] == ["regression", "pre-existing"]
    assert "1 test fails without it too" in verdict.sentence


def test_a_self_skip_is_unproven_and_said() -> None:
    verdict = judge(GOOD, head("self_skipped", variant="test_a_spyre_bool"))
    assert verdict.conclusion is Conclusion.SUCCESS
    assert verdict.counts["unproven"] == 1
    assert "1 variant skipped itself" in verdict.sentence
    assert judge(GOOD, head("self_skipped", variant="v", mode=Mode.XFAIL)).counts["unproven"] == 0


def test_counts_engagement_of_what_was_executed() -> None:
    verdict = judge(GOOD, head(variant="v0", kernels=0), head("skipped", variant="v1", kernels=0))
    assert (verdict.counts["engaged"], verdict.counts["unengaged"], verdict.counts["skipped"]) == (1, 1, 1)


def test_running_corrects_triage() -> None:
    wrong = replace(TRIAGED, verdict="irrelevant")
    found = verify({A: ("helper", (wrong,))}, [GOOD], [], [], PLAN)
    assert "verify-engaged-after-all" in {d.code for d in found.decisions}
    assert "verify-never-engaged" in {d.code for d in judge(head(kernels=0)).decisions}
    assert not {d.code for d in judge(GOOD).decisions} & {"verify-never-engaged", "verify-engaged-after-all"}


def test_a_promotion_needs_every_variant() -> None:
    one, two = head("xpassed", mode=Mode.XFAIL), head("xfailed", mode=Mode.XFAIL, variant="v2")
    assert "verify-promote" in {d.code for d in judge(one).decisions}
    assert "verify-promote" not in {d.code for d in judge(one, two).decisions}


def test_only_failures_that_could_be_the_changes_go_to_the_base() -> None:
    results = [
        GOOD,
        head("failed", variant="v2"),
        head("crashed", variant="v1"),
        head("error", variant="v3", message="OSError: [Errno 28] No space left on device"),
        head("xpassed", variant="v4", mode=Mode.XFAIL),
        head("xpassed", variant="v5", mode=Mode.XFAIL_STRICT),
    ]
    assert needs_base(results) == tuple(f"test/test_x.py::TestX::{v}" for v in ("v1", "v2", "v5"))


def test_a_file_that_does_not_import_asks_for_its_cheapest_test() -> None:
    cheap = PlannedTest(replace(A, method="test_z"), Mode.MANDATORY_SUCCESS, 1, 0.5, ())
    plan = replace(PLAN, tests=(*PLAN.tests, cheap))
    assert needs_base_tests([], [problem("collection", A.file)], plan) == [cheap.test]


def test_a_new_test_that_fails_is_said_to_be_new() -> None:
    plan = replace(PLAN, tests=(*PLAN.tests, PlannedTest(B, Mode.MANDATORY_SUCCESS, 1, 1, ("new-test",))))
    fresh = head("failed", "test_b_spyre", B, message="x")
    assert "1 test new in this change fails" in judge(BAD, fresh, base("failed"), plan=plan).sentence
    assert judge(GOOD, fresh, plan=plan).conclusion is Conclusion.NEUTRAL, "the base never ran"


@pytest.mark.parametrize(
    "hostile",
    [
        "\x1b[31mred\x1b[0m\n::error::pwned",
        "safe\u202egnp.exe",
        "zero\u200bwidth\u2066",
        "a" * 100_000,
        "nul\x00\x07\r\nx",
        "\ud800 lone",
    ],
)
def test_upstreams_text_is_only_data(hostile: str) -> None:
    bad = head("failed", variant=hostile, message=hostile)
    verdict = judge(bad, base(variant=hostile))
    texts = [verdict.sentence, *(c.message for c in verdict.causes), *(c.key for c in verdict.causes)]
    texts += [d.subject + d.reason for d in verdict.decisions]
    for text in texts:
        assert len(text) <= 900
        assert text.isprintable(), repr(text)
        text.encode()


def test_a_report_becomes_problems() -> None:
    report = {
        "errors": [{"file": "test/test_x.py", "message": "no"}, "junk"],
        "unmatched": [str(A)],
        "emptied": [{"test": str(B), "reason": "no dtype"}],
    }
    found = [(p.kind, p.file, p.message) for p in report_problems("s1", Side.HEAD, report)]
    assert found == [
        ("collection", "test/test_x.py", "no"),
        ("unmatched", str(A), "there is no such test in the file"),
        ("emptied", str(B), "no dtype"),
    ]
    assert report_problems("s1", Side.HEAD, {}) == ()


@pytest.mark.parametrize("spoil", [{"code": 1, "conclusion": "great"}, {"causes": [{}]}, {"counts": None}])
def test_a_spoilt_map_is_refused(spoil: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"great|verdict"):
        from_map({**to_map(judge(GOOD)), **spoil})


def test_what_a_worker_could_not_lay_over_was_not_exercised() -> None:
    report = {"refused": [{"file": "torch/_refs/__init__.py", "message": "the base shares only 40% of its lines"}, "x"]}
    problems = report_problems("s1", Side.HEAD, report) + report_problems("s2", Side.HEAD, report)
    known = replace(PLAN, not_exercised=(NotExercised("aten/x.cpp", "needs a build"),))
    verdict = judge(head(), plan=known, problems=problems)
    assert (verdict.conclusion, verdict.code) == (Conclusion.NEUTRAL, "verify-not-exercised")
    assert [item.path for item in verdict.not_exercised] == ["aten/x.cpp", "torch/_refs/__init__.py"]
    assert "40%" in verdict.not_exercised[1].reason
    # on the base it says nothing about the change
    assert judge(head(), problems=report_problems("s1", Side.BASE, report)).conclusion is Conclusion.SUCCESS


@pytest.mark.parametrize("code", ["explore", "agent-impact"])
def test_a_test_that_runs_besides_weakens_no_verdict_and_its_regression_counts(code: str) -> None:
    drawn = PlannedTest(B, Mode.MANDATORY_SUCCESS, 0.0, 0.5, (code,))
    plan = replace(PLAN, tests=(*PLAN.tests, drawn))
    why = {**WHY, B: ((code,), ())}
    bad = head("failed", "test_b_spyre", B, message="odd")

    def told(*base: VariantResult) -> str:
        return verify(why, [GOOD, bad], base, (), plan).conclusion.value

    assert told() == "success", "nothing is known of the base, and nobody asked for this test"
    assert told(replace(bad, side=Side.BASE)) == "success"
    assert told(replace(bad, side=Side.BASE, outcome=Outcome.PASSED)) == "failure"
    assert verify(why, [GOOD], [], (), plan).conclusion.value == "success", "nor does one without a result"
