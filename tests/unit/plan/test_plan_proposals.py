"""What trunk's results propose, and what they must not."""

from __future__ import annotations

from datetime import date

import pytest

from selector.configs import ConfigProblem, ConfigSource, load_configs
from selector.model import Mode, Outcome, TestId, VariantResult
from selector.plan.patch_tolerance import ToleranceEdit
from selector.plan.proposals import Proposal, propose, stale
from selector.plan.standing import Run
from selector.plan.tolerance import needed

TEST = TestId("test/test_x.py", "TestX", "test_a")
CONFIGS = load_configs(
    [
        ConfigSource(
            "x.yaml",
            "test_suite_config:\n  files:\n    - path: ${TORCH_ROOT}/test/test_x.py\n"
            "      unlisted_test_mode: mandatory_success\n",
        )
    ]
)
TODAY = date(2026, 11, 30)
LIMIT = "RuntimeError: Could not run 'aten::foo' with arguments from the 'spyre' backend"
CLOSE = (
    "Tensor-likes are not close!\nGreatest absolute difference: 3e-05 at index (0,) (up to 1e-05 allowed)\n"
    "Greatest relative difference: 2e-05 at index (0,) (up to 1.3e-06 allowed)"
)


def run(commit: str, outcome: str, message: str | None = None, mode: Mode = Mode.MANDATORY_SUCCESS) -> Run:
    return Run(commit, [VariantResult(TEST, "test_a_spyre", Outcome(outcome), mode, message=message)])


def kinds(*runs: Run) -> list[tuple[str, Mode | None]]:
    found = propose({TEST: runs}, CONFIGS, TODAY)
    return [(p.kind, p.edit.mode if p.edit else None) for p in found.proposals]


def several(outcome: str, message: str | None = None, mode: Mode = Mode.MANDATORY_SUCCESS, n: int = 6) -> list[Run]:
    return [run(f"c{i % 4}", outcome, message, mode) for i in range(n)]


def test_an_xfail_that_keeps_passing_is_promoted_by_taking_it_out() -> None:
    assert kinds(*several("xpassed", mode=Mode.XFAIL)) == [("promote", None)]
    assert kinds(*several("xpassed", mode=Mode.XFAIL, n=3)) == [], "not on so little"
    assert kinds(*[run("c0", "xpassed", mode=Mode.XFAIL)] * 9) == [], "nor on one commit alone"
    assert kinds(*several("xpassed", mode=Mode.XFAIL)[:5], run("c9", "xfailed", mode=Mode.XFAIL)) == []


def test_what_keeps_failing_is_demoted_with_an_end() -> None:
    found = propose({TEST: several("failed", "AssertionError: 1 != 2")}, CONFIGS, TODAY)
    (one,) = found.proposals
    assert (one.kind, one.until) == ("demote", "2027-02-28")
    assert one.edit is not None
    assert one.edit.mode is Mode.XFAIL
    assert one.evidence == ("6 runs on 4 commits, the newest c0",)
    assert "1 != 2" in one.reason
    assert propose({TEST: several("failed", "odd", n=2)}, CONFIGS, TODAY).unexplained == [TEST]


def test_what_comes_and_goes_is_for_quarantine_until_a_date() -> None:
    runs = [run("c3", "passed"), run("c2", "failed", "odd"), run("c1", "passed")]
    (one,) = propose({TEST: runs}, CONFIGS, TODAY).proposals
    assert (one.kind, one.edit, one.until) == ("quarantine", None, "2026-12-14")


@pytest.mark.parametrize(
    "message",
    ["sh: g++: not found", "Connection refused", "No space left on device", "out of memory: killed process 12"],
)
def test_an_environments_fault_is_no_evidence_for_anything(message: str) -> None:
    assert kinds(*several("failed", f"{LIMIT} after {message}")) == []
    assert kinds(*several("xfailed", message, Mode.XFAIL)) == []
    crashed = [run(f"c{i}", "crashed", f"the process was ended by SIGKILL: {message}") for i in range(6)]
    assert kinds(*crashed) == []


def test_a_limit_of_the_device_needs_one_run_and_no_end() -> None:
    found = propose({TEST: [run("c0", "failed", LIMIT)]}, CONFIGS, TODAY)
    assert [(p.kind, p.until) for p in found.proposals] == [("limit", "")]
    assert "needs the operator foo" in found.proposals[0].reason


def rough(commit: str, absolute: float, *, test: TestId = TEST, op: str | None = "mul", dtype: str = "float16") -> Run:
    message = CLOSE.replace("3e-05", f"{absolute:g}")
    return Run(commit, [VariantResult(test, "test_a_spyre", Outcome.FAILED, message=message, op=op, dtype=dtype)])


def test_a_tolerance_comes_from_measured_differences_alone() -> None:
    runs = [rough(f"c{i % 4}", 3e-5 - i * 1e-6) for i in range(6)]
    (one,) = propose({TEST: runs}, CONFIGS, TODAY).proposals
    assert (one.kind, one.subject) == ("tolerance", "mul float16")
    assert one.evidence == (
        "6 runs on 4 commits, 1 test",
        "largest differences of 6 results: 3e-05 absolute, 2e-05 relative",
    )
    edit = one.edit
    assert isinstance(edit, ToleranceEdit)
    assert (edit.op, edit.dtype, edit.atol, edit.rtol) == ("mul", "float16", 6e-5, 1.3e-6), "twice what was measured"
    assert edit.evidence == "; ".join(one.evidence)
    assert propose({TEST: runs[:4]}, CONFIGS, TODAY).proposals == [], "not on so little"
    assert propose({TEST: [rough("c0", 3e-5)] * 9}, CONFIGS, TODAY).proposals == [], "nor on one commit alone"
    assert propose({TEST: [*runs, run("c9", "passed")]}, CONFIGS, TODAY).proposals == [], "nor where it passed once"


def test_an_op_and_a_dtype_have_one_tolerance_whatever_test_measured_it() -> None:
    other = TestId("test/test_x.py", "TestX", "test_b")
    shown = {
        TEST: [rough(f"c{i % 4}", 3e-5) for i in range(6)],
        other: [rough(f"c{i % 4}", 5e-5, test=other) for i in range(6)],
    }
    (one,) = propose(shown, CONFIGS, TODAY).proposals
    assert isinstance(one.edit, ToleranceEdit)
    assert one.edit.atol == 1e-4
    assert "2 tests" in one.evidence[0]
    apart = {**shown, other: [rough(f"c{i % 4}", 5e-5, test=other, dtype="float32") for i in range(6)]}
    assert [p.subject for p in propose(apart, CONFIGS, TODAY).proposals] == ["mul float16", "mul float32"]
    no_ops = {test: [rough(f"c{i % 4}", 3e-5, test=test, op=None) for i in range(6)] for test in shown}
    found = propose(no_ops, CONFIGS, TODAY).proposals
    assert [p.subject for p in found] == [f"{TEST} float16", f"{other} float16"], "each test of its own"


def test_the_tolerance_that_has_to_grow_less_grows() -> None:
    near = needed([CLOSE, CLOSE.replace("2e-05", "2.0")])
    assert near is not None
    assert (near.atol, near.rtol) == (6e-5, 1.3e-6), "a large relative difference beside a zero"
    relative = needed([CLOSE.replace("3e-05", "3.0")])
    assert relative is not None
    assert (relative.atol, relative.rtol) == (1e-5, 4e-5)
    assert needed([CLOSE, "AssertionError: 1 != 2"]) is None
    assert needed([CLOSE.replace("3e-05", "3.0").replace("2e-05", "2.0")]) is None, "wrong, and not rough"
    assert needed([CLOSE.replace("3e-05", "nan").replace("2e-05", "nan")]) is None
    half = CLOSE.replace("3e-05", "300").replace("2e-05", "0.4").replace("1.3e-06", "0.001")
    assert needed([half]) is None, "a relative tolerance of 0.8 compares nothing"
    assert needed([]) is None


def test_stale_entries_are_proposals_with_their_place() -> None:
    problems = [
        ConfigProblem("x.yaml", 7, 9, "warning", "config-until-passed", "this entry was to hold until 2026-01-01"),
        ConfigProblem("x.yaml", 9, 9, "warning", "config-issue", "no issue"),
    ]
    place = ("config-until-passed at x.yaml:7:9",)
    assert stale(problems) == [Proposal("remove", "x.yaml:7", "this entry was to hold until 2026-01-01", place)]
