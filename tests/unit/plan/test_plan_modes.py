"""Who says how a planned test is to come out: a config, the sheet, trunk, in this order."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from io import StringIO

import pytest

from relay.cli.select_text import print_explained, to_value
from relay.cli.terminal import Terminal
from selector.configs import ConfigSource, ReuseConfigs, load_capability, load_configs
from selector.model import Change, FileChange, Mode, OpEntry, Outcome, RunPlan, Selection, TestId, VariantResult
from selector.plan import Budget, History, RelevantTest, WorkerOffer, plan
from selector.plan.codes import CONFIG, DEFAULT, DISPUTED, HISTORY, LIMIT, NO_OPS, NOT_LISTED
from selector.plan.proposals import propose
from selector.plan.standing import Run
from selector.plan.trunk import standing

TEST = TestId("test/test_x.py", "TestX", "test_a")
SHEET = load_capability("capability: {name: toy, device: toy, dtypes: [float16], ops: [add, mul]}", "capability.yaml")
ADD, LACKING = OpEntry("add", kernel="add"), OpEntry("cholesky_inverse", kernel="cholesky_inverse")
LACKS = "RuntimeError: Could not run 'aten::foo' with arguments from the 'spyre' backend"
ODD = "AssertionError: 1 != 2"
XFAIL = "      tests:\n        - {names: [TestX::test_a], mode: xfail, reason: known}\n"
MANDATORY = "      tests:\n        - {names: [TestX::test_a], mode: mandatory_success}\n"


def configs(entries: str = "", top: str = "") -> ReuseConfigs:
    text = f"test_suite_config:\n{top}  files:\n    - path: ${{TORCH_ROOT}}/test/test_x.py\n"
    return load_configs([ConfigSource("x.yaml", f"{text}      unlisted_test_mode: mandatory_success\n{entries}")])


def run(
    commit: str, outcome: str, message: str | None = None, mode: Mode = Mode.MANDATORY_SUCCESS, variant: str = "v"
) -> Run:
    return Run(commit, [VariantResult(TEST, f"test_a_{variant}", Outcome(outcome), mode, message=message)])


def several(outcome: str, message: str | None = None, mode: Mode = Mode.MANDATORY_SUCCESS, n: int = 6) -> list[Run]:
    return [run(f"c{i % 4}", outcome, message, mode) for i in range(n)]


def planned(
    runs: list[Run],
    given: ReuseConfigs | None = None,
    *,
    codes: tuple[str, ...] = ("helper",),
    draws: tuple[OpEntry, ...] = (),
    touched: bool | None = None,
    variants: int = 1,
) -> tuple[RunPlan, dict[str, str]]:
    """The plan, and the reasons of its decisions about the test by code."""
    stands = standing(runs)
    history = History(
        trunk={TEST: stands} if stands is not None else {}, touched={TEST: touched} if touched is not None else {}
    )
    item = RelevantTest(TEST, codes, 0.5, variants, draws=draws)
    change = Change("b" * 40, "h" * 40, (FileChange("test/test_x.py", "modified", old=b"", new=b"x"),))
    made, decisions = plan(
        [item], change, SHEET, given or configs(), [WorkerOffer("2.13.0", ("tests-only",))], Budget(600), history
    )
    return made, {d.code: d.reason for d in decisions if d.subject == str(TEST)}


def mode(*args: object, **more: object) -> tuple[str, str]:
    made, _ = planned(*args, **more)  # type: ignore[arg-type]
    (one,) = made.tests
    return one.mode.value, one.mode_code


def test_nobody_speaks_of_it_and_it_has_to_pass() -> None:
    assert mode([]) == ("mandatory_success", DEFAULT)
    assert mode(several("passed")) == ("mandatory_success", DEFAULT)


def test_what_keeps_failing_on_trunk_is_expected_to_fail() -> None:
    made, said = planned(several("failed", ODD))
    assert (made.tests[0].mode, made.tests[0].mode_code) == (Mode.XFAIL, HISTORY)
    assert said[HISTORY] == "every variant fails in the newest 6 runs on 4 commits of trunk: AssertionError: 1 != 2"
    since = [*several("failed", ODD), run("old", "passed")]
    assert mode(since) == ("xfail", HISTORY), "it broke, and fails ever since"


@pytest.mark.parametrize(
    "runs",
    [
        several("failed", ODD, n=4),
        [run("c0", "failed", ODD)] * 9,
        [*several("failed", ODD, n=2), *several("passed")],
    ],
    ids=["four runs", "one commit alone", "two since it passed"],
)
def test_few_data_expect_nothing_and_say_so(runs: list[Run]) -> None:
    made, said = planned(runs)
    assert (made.tests[0].mode, made.tests[0].mode_code) == (Mode.MANDATORY_SUCCESS, DEFAULT)
    assert "too few to expect it (5 runs on 3 commits)" in said[DEFAULT]


@pytest.mark.parametrize(
    "runs",
    [
        [run("c5", "passed"), *several("failed", ODD)],
        [*several("failed", ODD), run("c8", "passed"), run("c9", "failed", ODD)],
        several("failed", "No space left on device"),
        several("self_skipped"),
    ],
    ids=["mended", "comes and goes", "an environment's fault", "nothing executed"],
)
def test_what_is_no_lasting_failure_of_the_test_expects_nothing(runs: list[Run]) -> None:
    assert mode(runs) == ("mandatory_success", DEFAULT)


def test_a_limit_of_the_device_that_trunk_met_once_is_expected() -> None:
    made, said = planned([run("c0", "failed", LACKS)])
    assert (made.tests[0].mode, made.tests[0].mode_code) == (Mode.XFAIL, LIMIT)
    assert said[LIMIT] == "on trunk it needs the operator foo, which the device does not have"
    assert mode([run("c0", "crashed", "SIGSEGV")]) == ("mandatory_success", DEFAULT), "a crash names no limit"


def test_a_part_of_the_variants_is_no_reason_to_expect_nothing_of_the_others() -> None:
    both = [
        Run(f"c{i % 4}", [*run("", "failed", ODD).results, *run("", "passed", variant="w").results]) for i in range(6)
    ]
    made, said = planned(both)
    assert made.tests[0].mode is Mode.MANDATORY_SUCCESS
    assert said[DEFAULT].startswith("has to pass, though one of its variants failed in the newest 6 runs")
    # comparisons with a base run what failed elsewhere, and nothing else
    compared = [replace(one, full=False) for one in several("failed", ODD)]
    assert mode(compared, variants=2) == ("mandatory_success", DEFAULT)
    assert mode(compared, variants=1) == ("xfail", HISTORY), "there is no other variant"
    assert mode([*compared, run("c9", "failed", ODD)], variants=2) == ("xfail", HISTORY), "a whole run has looked"


def test_trunk_says_nothing_of_a_test_that_the_change_edits() -> None:
    assert mode(several("failed", ODD), codes=("edited-test",)) == ("mandatory_success", DEFAULT)
    assert mode([run("c0", "failed", LACKS)], codes=("new-test",)) == ("mandatory_success", DEFAULT)


def test_a_config_that_contradicts_trunk_holds_and_is_named_beside_the_proposal() -> None:
    for runs, entries, holds, kind in (
        (several("failed", ODD), MANDATORY, "mandatory_success", "demote"),
        ([run("c0", "failed", LACKS)], MANDATORY, "mandatory_success", "limit"),
        (several("xpassed", mode=Mode.XFAIL), XFAIL, "xfail", "promote"),
    ):
        given = configs(entries)
        made, said = planned(runs, given)
        assert (made.tests[0].mode.value, made.tests[0].mode_code) == (holds, CONFIG)
        assert said[DISPUTED].startswith(f"x.yaml:6 says {holds}, which holds; ")
        assert [p.kind for p in propose({TEST: runs}, given, date(2026, 11, 30)).proposals] == [kind]
    _, said = planned(several("failed", ODD, n=4), configs(MANDATORY))
    assert DISPUTED not in said, "too few for a proposal"
    _, said = planned(several("xfailed", ODD, Mode.XFAIL), configs(XFAIL))
    assert DISPUTED not in said, "as the config says"


def test_ops_that_the_sheet_lacks_leave_no_variant_to_plan() -> None:
    made, said = planned([], draws=(LACKING,))
    assert not made.tests
    assert not made.partial
    assert said == {NO_OPS: "no variant is generated: the sheet of toy has none of cholesky_inverse"}
    assert mode([], draws=(LACKING, ADD)) == ("mandatory_success", DEFAULT), "one of them is there"
    made_of_others = replace(LACKING, kernel="")
    assert mode([], draws=(made_of_others,)) == ("mandatory_success", DEFAULT), "only running it shows"
    assert mode([], draws=(LACKING,), touched=True) == ("mandatory_success", DEFAULT), "it was seen on the device"


def test_ops_that_a_config_lists_are_a_persons_word() -> None:
    listed = configs(top="  global: {supported_ops: [cholesky_inverse]}\n")
    assert mode([], listed, draws=(LACKING,)) == ("mandatory_success", DEFAULT), "whatever the sheet says"
    made, said = planned([], listed, draws=(ADD,))
    assert not made.tests
    assert said[NOT_LISTED] == "no variant is generated: supported_ops of its config has none of add"
    made, said = planned([], configs(MANDATORY), draws=(LACKING,))
    assert (made.tests[0].mode, made.tests[0].mode_code) == (Mode.MANDATORY_SUCCESS, CONFIG)
    assert "the sheet of toy has none of cholesky_inverse" in said[DISPUTED], "an entry asks for it by name"


def test_explain_and_json_say_who_decided_the_mode_and_what_speaks_against_it() -> None:
    stands = standing(several("failed", ODD))
    assert stands is not None
    item = RelevantTest(TEST, ("helper",), 0.5, 1)
    change = Change("b" * 40, "h" * 40, (FileChange("test/test_x.py", "modified", old=b"", new=b"x"),))
    offers = [WorkerOffer("2.13.0", ("tests-only",))]
    counts = dict.fromkeys(("files", "impacted", "tests", "relevant", "planned", "est_variants", "left_out"), 1)
    for given, words in (
        (configs(), ["xfail (plan-mode-history)", "every variant fails in the newest 6 runs"]),
        (configs(MANDATORY), ["mandatory_success (plan-mode-config)", "x.yaml:6 says mandatory_success, which holds"]),
    ):
        made, decisions = plan([item], change, SHEET, given, offers, Budget(600), History(trunk={TEST: stands}))
        selection = Selection(change, made, decisions, counts)
        out = StringIO()
        print_explained(selection, Terminal(file=out, width=200))
        assert [word for word in words if word not in out.getvalue()] == []
        assert to_value(selection)["tests"][0]["mode_code"] == made.tests[0].mode_code
