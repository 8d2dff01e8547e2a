"""Strategies, the schedule and the figures, on a pool that is small enough to count by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from selector.model import FileChange, TestId
from selector.plan.ranking import Ranked
from selector.replay import schedule
from selector.replay.evaluate import evaluate, group_of
from selector.replay.history import CommitOutcome, edited, lines, split
from selector.replay.model import KILLED, SURVIVED, UNSTABLE, Edit, Fault, PoolVariant
from selector.replay.statistics import Outcome, Rate, line
from selector.replay.strategies import SHARE, Case, ChosenTest, Pool, Recorded, file_names, orders
from selector.replay.training import examples

ADD = TestId("test/test_decomp.py", "T", "test_add")
SUB = TestId("test/test_ops.py", "T", "test_sub")
FAR = TestId("test/test_far.py", "T", "test_far")
PYTHON = Fault("condition-negate", "decompositions", "torch/_decomp/decompositions.py", "f", 3, Edit(0, 1, "x"))
SCORED = Fault("return-none", "decompositions", "torch/_decomp/decompositions.py", "g", 9, Edit(5, 6, "y"))


def variant(test: TestId, name: str, op: str | None, seconds: float, *faults: Fault, share: float = 1.0) -> PoolVariant:
    return PoolVariant(f"{test.file}::T::{name}", test, op, seconds, share, frozenset(f.id for f in faults))


A1 = variant(ADD, "a1", "add", 1.0, PYTHON, SCORED)
A2 = variant(ADD, "a2", "mul", 1.0, PYTHON)
S1 = variant(SUB, "s1", None, 2.0, PYTHON, share=0.5)
F1 = variant(FAR, "f1", None, 4.0, SCORED)
POOL = Pool([A1, A2, S1, F1])
CASE = Case(
    PYTHON,
    (ChosenTest(SUB, frozenset(), 0.5, 1.0, ("name",)), ChosenTest(ADD, frozenset({"add"}), 1.0, 2.0, ("op",))),
    0.5,
)


def test_strategies_take_what_their_names_say() -> None:
    found = orders(CASE, POOL, "1", lambda one: (-one.weight,))
    assert found["rules"] == [S1.key, A1.key]  # a2 is of an op to which the change does not reach
    assert found["rules + ranker"] == [A1.key]  # the weightiest first, and no more than its part of the seconds
    assert found["all"] == [A1.key, A2.key, S1.key, F1.key]
    assert found["same-name files"] == [A1.key, A2.key]
    assert found["edited files"] == []
    assert "rules + model" not in found
    drawn = found["random 25 %"]
    assert drawn == orders(CASE, POOL, "1")["random 25 %"]
    assert POOL.share(drawn) <= SHARE or len(drawn) == 1


def test_a_variant_counts_for_those_of_its_file_that_are_not_in_the_pool() -> None:
    assert POOL.total == 1 + 1 + 4 + 4
    assert POOL.share([S1.key]) == 0.4
    assert POOL.seconds([S1.key]) == 2.0


def test_a_recorded_model_is_the_plan_that_came_of_its_answer() -> None:
    said = Recorded((FAR,), frozenset({SUB}), 0.02, 3.0, "someone")
    assert "rules + model" not in orders(replace(CASE, recorded=said), POOL, "1")
    planned = (*CASE.chosen, ChosenTest(FAR, frozenset(), 0.1, 1.0, ("agent-impact",)))
    case = replace(CASE, recorded=said, modelled=replace(CASE, chosen=planned))
    found = orders(case, POOL, "1")
    assert found["rules + model"] == [*found["rules"], F1.key]
    known = {F1.key: KILLED, S1.key: SURVIVED, A1.key: SURVIVED, A2.key: SURVIVED}
    told = evaluate([PYTHON], POOL, {PYTHON.id: case}, {PYTHON.id: known}, {PYTHON.id: {}}, "1")
    one = told.outcomes[group_of(PYTHON)]["rules + model"][0]
    assert (one.found, one.usd, one.decide_s) == (True, 0.02, CASE.decide_s + 3.0)
    assert not told.outcomes[group_of(PYTHON)]["rules"][0].found


@pytest.mark.parametrize(
    ("known", "left"),
    [
        ({}, [S1.key, A1.key]),
        ({S1.key: SURVIVED}, [A1.key]),
        ({S1.key: KILLED}, []),
        ({A1.key: KILLED}, [S1.key]),  # whether something fails sooner is not known yet
        ({S1.key: UNSTABLE, A1.key: SURVIVED}, []),
    ],
)
def test_only_what_may_fail_before_the_first_failure_is_run(known: dict[str, str], left: list[str]) -> None:
    assert schedule.to_run([S1.key, F1.key, A1.key], POOL.reached(PYTHON.id), known) == left


def test_the_first_failure_costs_what_stands_before_it() -> None:
    assert schedule.first_failure([S1.key, F1.key, A1.key], {A1.key: KILLED}, POOL) == 7.0
    assert schedule.first_failure([S1.key, F1.key], {A1.key: KILLED}, POOL) is None


def test_evaluation_counts_by_hand() -> None:
    faults = [PYTHON, SCORED]
    cases = {PYTHON.id: CASE, SCORED.id: Case(SCORED, CASE.chosen, 0.1)}
    known = {
        PYTHON.id: {S1.key: SURVIVED, A1.key: KILLED, A2.key: KILLED},
        SCORED.id: {A1.key: SURVIVED, F1.key: KILLED},
    }
    notes = {PYTHON.id: {"all_ran": True}, SCORED.id: {"all_ran": False}}
    found = evaluate(faults, POOL, cases, known, notes, "1")
    assert (found.killed, found.unkilled, found.undecided, found.not_run) == (2, 0, 0, 0)
    ours = found.outcomes[group_of(PYTHON)]["rules"][0]
    assert ours.found
    assert ours.first_s == 3.0
    assert ours.recalled == (1.0, 2.0)  # a2 fails too, and rules do not select it
    missed = found.outcomes[group_of(SCORED)]["rules"][0]
    assert not missed.found
    assert not missed.undecided
    assert [one.fault.id for one in found.missed] == [SCORED.id]
    assert found.outcomes[group_of(SCORED)]["all"][0].found


def test_what_was_not_run_to_its_end_is_not_called_unkilled() -> None:
    found = evaluate([PYTHON], POOL, {PYTHON.id: CASE}, {PYTHON.id: {A1.key: SURVIVED}}, {PYTHON.id: {}}, "1")
    assert (found.killed, found.unkilled, found.undecided) == (0, 0, 1)
    found = evaluate([PYTHON], POOL, {}, {}, {}, "1")
    assert found.not_run == 1


@pytest.mark.parametrize(
    ("hits", "of", "low", "high"),
    # Wilson's interval of the textbook cases: none of ten, all of ten, half of a hundred
    [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (50, 100, 0.4038, 0.5962), (0, 0, 0.0, 1.0)],
)
def test_intervals(hits: int, of: int, low: float, high: float) -> None:
    assert Rate(hits, of).interval == pytest.approx((low, high), abs=1e-4)


def test_intervals_narrow_with_the_number() -> None:
    widths = [high - low for low, high in (Rate(n // 2, n).interval for n in (4, 16, 64, 256))]
    assert all(wide > narrow for wide, narrow in pairwise(widths))


def test_a_line_of_no_faults_says_so() -> None:
    empty = line("rules", [])
    assert (empty.changes.of, empty.first_s, empty.test_recall) == (0, None, None)


def test_a_line_of_outcomes() -> None:
    one = Outcome("a", found=True, undecided=False, share=0.1, first_s=1.0, recalled=(1.0, 4.0))
    two = Outcome("b", found=False, undecided=True, share=0.3, first_s=None)
    found = line("rules", [one, two])
    assert (found.changes.value, found.undecided, found.share, found.first_s) == (0.5, 1, 0.2, 1.0)
    assert (found.test_recall, found.test_recall_faults) == (0.25, 1)


def test_only_writing_kinds_are_learned_from() -> None:
    cases = {PYTHON.id: CASE, SCORED.id: Case(SCORED, CASE.chosen, 0.1)}
    known = {PYTHON.id: {S1.key: SURVIVED, A1.key: KILLED}, SCORED.id: {A1.key: KILLED}}
    found = list(examples([PYTHON, SCORED], POOL, cases, known))
    assert {one.change for one in found} == {PYTHON.id}
    assert {one.ranked.test: one.failed for one in found} == {SUB: False, ADD: True}
    assert all(isinstance(one.ranked, Ranked) for one in found)


def test_what_nobody_knows_is_not_learned_from() -> None:
    known = {PYTHON.id: {A1.key: KILLED}}  # s1 reaches the fault and did not run
    assert {one.ranked.test for one in examples([PYTHON], POOL, {PYTHON.id: CASE}, known)} == {ADD}


@pytest.mark.parametrize(
    ("path", "test", "same"),
    [
        ("torch/_decomp/decompositions.py", "test/test_decomp.py", True),
        ("torch/nn/functional.py", "test/test_functional.py", True),
        ("torch/nn/modules/pooling.py", "test/nn/test_pooling.py", True),
        ("torch/_prims/__init__.py", "test/test_prims.py", True),
        ("torch/_refs/__init__.py", "test/test_ops.py", False),
    ],
)
def test_same_names(path: str, test: str, same: bool) -> None:
    assert (not file_names(path).isdisjoint(file_names(test))) is same


def outcome(commit: str, expected: int, selected: int, **more: object) -> CommitOutcome:
    values = {"native": False, "share": 0.1, "widened": False, "seconds": 1.0, **more}
    return CommitOutcome(commit, expected=expected, selected=selected, **values)  # type: ignore[arg-type]


def test_commits_are_split_into_what_is_shown_and_what_is_held_back() -> None:
    parts = split(
        [change("torch/_refs/__init__.py"), change("test/test_ops.py"), change("docs/a.rst"), change("test/data.json")]
    )
    assert parts is not None
    assert [file.path for file in parts.shown] == ["torch/_refs/__init__.py"]
    assert [file.path for file in parts.held] == ["test/test_ops.py"]
    assert not parts.native
    native = split([change("aten/src/ATen/native/Copy.cpp"), change("test/test_torch.py")])
    assert native is not None
    assert native.native


@pytest.mark.parametrize(
    "paths",
    [
        ["torch/_refs/__init__.py"],  # no test
        ["test/test_ops.py"],  # no source
        ["docs/a.rst", "test/test_ops.py"],
        ["test/test_ops.py", *(f"torch/m{i}.py" for i in range(40))],  # a sweep
    ],
)
def test_commits_that_say_nothing(paths: list[str]) -> None:
    assert split([change(path) for path in paths]) is None


def change(path: str) -> FileChange:
    return FileChange(path, "modified", path, b"a", b"b")


def test_new_and_untouched_tests_are_not_expected() -> None:
    before = [(ADD, "1"), (SUB, "1")]
    assert edited(before, [(ADD, "1"), (SUB, "2"), (FAR, "1")]) == {SUB}


def test_lines_of_history() -> None:
    found = {
        one.group: one
        for one in lines(
            [
                outcome("a", 2, 1),
                outcome("b", 1, 0, native=True, widened=True),
                outcome("c", 5, 0, cosmetic=True),  # comments alone: nothing can fail for them
            ]
        )
    }
    assert (found["all"].commits.hits, found["all"].commits.of) == (1, 2)
    assert (found["all"].tests.hits, found["all"].tests.of) == (1, 3)
    assert (found["native"].commits.hits, found["native"].commits.of) == (0, 1)
    assert (found["not widened"].commits.of, found["all"].widened) == (1, 1)


def test_a_fault_whose_run_was_cut_off_before_its_selection_is_not_run() -> None:
    found = evaluate([PYTHON], POOL, {}, {PYTHON.id: {A1.key: KILLED}}, {PYTHON.id: {"spent_s": 1.0}}, "1")
    assert (found.killed, found.not_run) == (0, 1)
