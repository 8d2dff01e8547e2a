"""Reading people's decisions from configs; exclusions, each by its own reason; the measure, and that it can fail."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from selector.configs import Capability, ConfigSource
from selector.discover import Inventory, take
from selector.model import Mode, TestId
from selector.trees import MemoryTree
from selector.triage.decisions import HELD_OUT, TUNED, Decided, part_of, read_decisions
from selector.triage.engagement import Uses
from selector.triage.evaluation import Figures, Measured, evaluate
from selector.triage.evidence import Engagement, EvidenceError, engagements, read_evidence
from selector.triage.exclusions import CODES, Exclusions

FILE = "test/test_x.py"
SHEET = Capability("s", "spyre", frozenset({"float32"}), None, frozenset(), {"devices": 1}, {}, {})
TREE = MemoryTree(
    {
        FILE: """
class TestX(TestCase):
    def test_used(self, device): torch.ones(2, device=device)
    def test_unused(self, device): torch.ones(2)
    @onlyCUDA
    def test_cuda(self, device): torch.ones(2, device=device)
    @parametrize("n", [1, 2])
    def test_many(self, device, n): torch.ones(n, device=device)
    def test_many_more(self, device): torch.ones(2)

instantiate_device_type_tests(TestX, globals())

class TestPlain(TestCase):
    def test_host(self): torch.ones(2)
"""
    }
)
CONFIG = """
test_suite_config:
  files:
    - path: ${TORCH_ROOT}/test/test_x.py
      unlisted_test_mode: skip
      tests:
        # They do not engage the device.
        - names:
            - TestX::test_unused
            - TestPlain::test_host
            - TestX::test_gone
          mode: skip  # does not engage the layer
        - names:
            - TestX::test_many_n_1
            # these fail
            - TestX::test_used  # no such op
          mode: xfail
        - names: [TestX::test_cuda]
          mode: skip
    - path: ${TORCH_ROOT}/test/test_gone.py
      tests:
        - names: [test_a]
"""


def inventory() -> Inventory:
    return take(TREE)


def read(text: str = CONFIG) -> list[Decided]:
    return read_decisions([ConfigSource("a.yaml", text)], inventory())


def test_names_modes_comments_and_what_they_name() -> None:
    rows = {decided.name: decided for decided in read()}
    assert [(d.name, d.mode.value, d.engages, [t.method for t in d.tests]) for d in rows.values()] == [
        ("TestX::test_unused", "skip", False, ["test_unused"]),
        ("TestPlain::test_host", "skip", False, ["test_host"]),
        ("TestX::test_gone", "skip", False, []),
        ("TestX::test_many_n_1", "xfail", True, ["test_many"]),
        ("TestX::test_used", "xfail", True, ["test_used"]),
        ("TestX::test_cuda", "skip", True, ["test_cuda"]),
        ("test_a", "mandatory_success", True, []),
    ]
    assert rows["TestX::test_unused"].comment == "They do not engage the device. does not engage the layer"
    assert rows["TestX::test_used"].comment == "these fail no such op"
    assert rows["TestX::test_many_n_1"].comment == ""
    assert (rows["TestX::test_unused"].config, rows["TestX::test_unused"].line) == ("a.yaml", 9)


def test_a_name_that_only_begins_like_a_test_is_none_of_its_variants() -> None:
    text = CONFIG.replace("TestX::test_gone", "TestX::test_unused_by_far").replace(
        "test_many_n_1", "test_many_more_than_1"
    )
    rows = {decided.name: decided.tests for decided in read(text)}
    assert rows["TestX::test_unused_by_far"] == ()  # test_unused has no variants
    # test_many has variants, and one could be called so; test_many_more has none
    assert [test.method for test in rows["TestX::test_many_more_than_1"]] == ["test_many"]


def test_the_parts_are_fixed_and_by_upstream_file() -> None:
    paths = [f"test/test_{i}.py" for i in range(200)]
    held = [path for path in paths if part_of(path) == HELD_OUT]
    assert 70 < len(held) < 130
    assert [part_of(path) for path in ("test/test_view_ops.py", "test/test_unary_ufuncs.py", "test/test_ops.py")] == [
        HELD_OUT,
        TUNED,
        TUNED,
    ]
    assert Decided("a.yaml", 1, "test/test_view_ops.py", "x", Mode.SKIP, "").part == HELD_OUT


# ------------------------------------------------------------------------------------------------------------ evidence


def line(test: str = "test_used", outcome: str = "passed", kernels: int | None = 0) -> str:
    return json.dumps({"test": f"{FILE}::TestX::{test}", "variant": "v", "outcome": outcome, "kernels": kernels})


@pytest.mark.parametrize(
    ("lines", "engages"),
    [
        ([line(kernels=3)], True),
        ([line(outcome="failed", kernels=3)], True),
        ([line()], False),
        ([line(), line(outcome="self_skipped")], False),
        ([line(outcome="self_skipped")], None),  # it never ran
        ([line(outcome="failed")], None),  # it may have failed before its first kernel
        ([line(), line(outcome="failed")], None),
        ([line(), line(outcome="crashed", kernels=2)], True),
        ([line(kernels=None)], None),
        ([line(outcome="skipped")], None),
    ],
)
def test_what_counts_prove(lines: list[str], engages: bool | None) -> None:
    found = engagements(read_evidence("\n".join(lines), "runs.jsonl"))
    assert found.get(TestId(FILE, "TestX", "test_used"), Engagement()).engages is engages


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"test": "x"}', '{"test": "a::b::c"}', '{"test": "a::b::c", "outcome": "fine"}'],
)
def test_what_is_no_result_line_is_named(text: str) -> None:
    with pytest.raises(EvidenceError, match=r"runs.jsonl:2: no result line"):
        read_evidence(f"{line()}\n{text}\n", "runs.jsonl")


# ---------------------------------------------------------------------------------------------------------- exclusions

TEST = TestId(FILE, "TestX", "test_used")
PLAIN = Decided("a.yaml", 1, FILE, "TestX::test_used", Mode.XFAIL, "aten::add is missing", (TEST,))
EXCLUDED = [
    # decision, counts, code, a part of the fact
    (PLAIN, None, None, ""),
    (replace(PLAIN, comment="xfail: dxp_standalone not detected"), None, "environment-fault", "not detected"),
    (
        replace(PLAIN, comment="fails due to the missing 'dxp_standalone' executable"),
        None,
        "environment-fault",
        "missing",
    ),
    (replace(PLAIN, comment="xfail: ModuleNotFoundError"), None, "environment-fault", "ModuleNotFoundError"),
    (replace(PLAIN, comment="No space left on device"), None, "environment-fault", "No space left"),
    (replace(PLAIN, comment="missing support for the operator"), None, None, ""),
    (replace(PLAIN, mode=Mode.SKIP, comment="tool not detected"), None, None, ""),  # the fault of an xfail only
    (
        replace(PLAIN, mode=Mode.MANDATORY_SUCCESS, comment="They do not engage the device layer."),
        None,
        "comment-against-mode",
        "do not engage",
    ),
    (
        replace(PLAIN, mode=Mode.MANDATORY_SUCCESS, comment="They do not interact with the backend"),
        None,
        "comment-against-mode",
        "do not interact with the backend",
    ),
    (
        replace(PLAIN, comment="classified as mandatory_success since"),
        None,
        "comment-against-mode",
        "mandatory_success",
    ),
    (replace(PLAIN, comment="They are classified as 'xfail' since"), None, None, ""),
    (
        replace(PLAIN, mode=Mode.SKIP, comment="They are xfailed. does not engage"),
        None,
        "comment-against-mode",
        "xfail",
    ),
    (replace(PLAIN, mode=Mode.SKIP, comment=""), None, "skip-without-reason", "has no comment"),
    (replace(PLAIN, mode=Mode.SKIP, comment=""), Engagement(2, 2, 0, 9), "skip-without-reason", "has no comment"),
    (replace(PLAIN, comment=""), None, None, ""),  # of an xfail the mode itself says that it runs
    (PLAIN, Engagement(2, 2, 0, 0), "kernels-against-decision", "0 kernels in 2 variants"),
    (PLAIN, Engagement(2, 2, 0, 9), None, ""),
    (PLAIN, Engagement(2, 0, 0, 0), None, ""),
    (
        replace(PLAIN, mode=Mode.SKIP, comment="does not engage"),
        Engagement(1, 1, 0, 4),
        "kernels-against-decision",
        "4 kernels",
    ),
    (replace(PLAIN, mode=Mode.SKIP, comment="does not engage"), Engagement(1, 1, 0, 0), None, ""),
]


@pytest.mark.parametrize(("decided", "counts", "code", "part"), EXCLUDED)
def test_each_exclusion_has_a_fact(decided: Decided, counts: Engagement | None, code: str | None, part: str) -> None:
    found = Exclusions([decided], {TEST: counts} if counts else {}).of(decided, TEST)
    assert (found.code if found else None) == code
    if found:
        assert part in found.fact
        assert code in CODES


def test_a_test_with_two_modes_is_excluded_wherever_it_stands() -> None:
    other = replace(PLAIN, config="b.yaml", mode=Mode.MANDATORY_SUCCESS, comment="")
    both = Exclusions([PLAIN, other], {})
    for decided in (PLAIN, other):
        found = both.of(decided, TEST)
        assert found is not None
        assert (found.code, found.fact) == ("two-modes", "mandatory_success at b.yaml:1, xfail at a.yaml:1")
    assert Exclusions([PLAIN, replace(PLAIN, config="b.yaml")], {}).of(PLAIN, TEST) is None


def test_an_exclusion_does_not_ask_what_triage_says() -> None:
    measured = measure(CONFIG.replace("# no such op", "# tool not found"))
    excluded = {row.excluded.code: row for row in measured.rows if row.excluded}
    assert sorted(excluded) == ["environment-fault", "skip-without-reason"]
    assert all(row.agrees for row in excluded.values())
    assert measured.exclusions["environment-fault"] == measured.exclusions["skip-without-reason"] == (1, 0)
    assert measured.counted["all"].rows == measured.raw["all"].rows - 2


# --------------------------------------------------------------------------------------------------------- the measure


def measure(text: str = CONFIG, counts: dict[TestId, Engagement] | None = None) -> Measured:
    found = inventory()
    return evaluate(read(text), found, SHEET, Uses(TREE.read, found.ids), engaged=counts)


def test_agreement_is_counted_by_test_and_by_name() -> None:
    measured = measure()
    assert measured.raw["all"] == Figures(both=3, neither=2)
    assert (measured.names, len(measured.absent), len(measured.rows)) == (7, 2, 5)
    assert measured.by_name == Figures(both=3, neither=2)
    twice = CONFIG.replace("- TestX::test_many_n_1\n", "- TestX::test_many_n_1\n            - TestX::test_many_n_2\n")
    assert measure(twice).raw["all"].rows == 5
    assert measure(twice).by_name.rows == 6


def test_disagreements_are_counted_on_their_side() -> None:
    swapped = CONFIG.replace("unused", "?").replace("used", "unused").replace("?", "used")
    measured = measure(swapped)
    assert measured.raw["all"] == Figures(both=2, neither=1, kept_only=1, decided_only=1)
    assert measured.raw["all"].agreement == 3 / 5
    assert (measured.raw["all"].precision, measured.raw["all"].recall) == (2 / 3, 2 / 3)
    assert (measured.raw["all"].drop_precision, measured.raw["all"].drop_recall) == (0.5, 0.5)
    wrong = {(row.test.method, row.decided.engages, row.triaged.code) for row in measured.rows if not row.agrees}
    assert wrong == {("test_used", False, "device-generic"), ("test_unused", True, "device-unused")}


def test_a_test_with_two_answers_is_two_rows_of_which_one_agrees() -> None:
    measured = measure(CONFIG.replace("- TestX::test_gone", "- TestX::test_used"))
    both = [row for row in measured.rows if row.test == TEST]
    assert sorted(row.agrees for row in both) == [False, True]
    assert {row.excluded.code for row in both if row.excluded} == {"two-modes"}


def test_kernels_outrank_rules_and_people() -> None:
    host = TestId(FILE, "TestPlain", "test_host")
    measured = measure(counts={host: Engagement(1, 1, 0, 5)})
    assert (measured.evidence, measured.overruled) == (1, 1)
    (row,) = [row for row in measured.rows if row.test == host]
    assert (row.triaged.code, row.agrees) == ("engaged-before", False)
    assert row.excluded is not None
    assert row.excluded.code == "kernels-against-decision"


def test_nothing_to_measure_has_no_share() -> None:
    assert Figures().agreement is None
    assert Figures().precision is None


def test_shuffled_decisions_agree_less() -> None:
    """The measure can fail: decisions that are dealt out by chance agree about half the time."""
    methods = "".join(
        f"    def test_{i}(self, device): torch.ones(2{', device=device' if i % 2 else ''})\n" for i in range(40)
    )
    tree = MemoryTree({FILE: f"class TestX(TestCase):\n{methods}\ninstantiate_device_type_tests(TestX, globals())\n"})
    found = take(tree)
    tests = [test for test, _, _ in found.tests(FILE)]
    modes = [Mode.XFAIL if int(test.method[5:]) % 2 else Mode.SKIP for test in tests]

    def agreement(dealt: list[Mode]) -> float:
        decisions = [
            Decided("a.yaml", 1, FILE, t.method, m, "does not engage" if m is Mode.SKIP else "", (t,))
            for t, m in zip(tests, dealt, strict=True)
        ]
        share = evaluate(decisions, found, SHEET, Uses(tree.read, found.ids)).raw["all"].agreement
        assert share is not None
        return share

    assert agreement(modes) == 1.0
    shuffled = list(modes)
    random.Random(7).shuffle(shuffled)
    assert 0.2 < agreement(shuffled) < 0.8
