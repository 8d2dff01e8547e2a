"""What is on trial is put in force only when replay and live runs both say that it wins."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from selector.model import Stage, TestId
from selector.plan.observed import Observed, Seen, observe
from selector.plan.shadow import Trial, score
from selector.plan.takeover import ReplayError, ReplayReport, breaks_more_often, may_take_over, read_reports

A, B, C, D, E = (TestId("test/test_x.py", "TestX", f"test_{c}") for c in "abcde")
WON = ReplayReport(subject="rule:x", change_recall=0.98, baseline=0.97, n=200, seconds_share=1.1)
WINNER = score([Trial(0, 0, 1.0, 2.0)] * 24 + [Trial(0, 0, 2.0, 1.0)] * 4)


def test_what_a_run_shows_of_a_rule() -> None:
    seen = Seen(ran=frozenset({A, B, C}), broken=frozenset({A, C}), engaged=frozenset({A, B}), drawn=frozenset({A, B}))
    assert observe(Stage.TRIAGE, [A, D], [C], seen) == Observed(
        runs=1, adds=2, adds_seen=1, adds_broken=1, adds_engaged=1, others_seen=1, drops=1, drops_seen=1, drops_broken=1
    )
    assert observe(Stage.DISCOVER, [A, D], [], seen).adds_engaged == 0, "kernels say nothing about reach"
    both = observe(Stage.TRIAGE, [A], [], seen) + observe(Stage.TRIAGE, [], [], Seen(), error=True)
    assert (both.runs, both.adds, both.errors) == (2, 1, 1)


@pytest.mark.parametrize(
    ("over", "ready", "why"),
    [
        ({}, True, "in replay it finds 98.0% of 200 changes, what is in force 97.0%, for 1.10 times the seconds"),
        ({"n": 19}, False, "replayed on 19 changes only, 20 are needed"),
        ({"change_recall": 0.96}, False, "in replay it finds 96.0% of 200 changes, what is in force 97.0%"),
        ({"seconds_share": 1.6}, False, "for 1.60 times the seconds"),
        ({"change_recall": 0.97}, False, ", for no less"),
        ({"change_recall": 0.97, "seconds_share": 0.8}, True, "for 0.80 times the seconds"),
    ],
)
def test_replay_wins_by_finding_more_or_as_much_for_less(over: dict[str, float], ready: bool, why: str) -> None:
    won, told = WON.model_copy(update=over).wins()
    assert won is ready
    assert why in told


def test_a_ranker_needs_replay_and_live_runs_and_no_luck() -> None:
    assert may_take_over(WINNER, WON).ready
    assert may_take_over(WINNER, None).why == "it was not replayed"
    assert not may_take_over(WINNER, WON.model_copy(update={"change_recall": 0.5})).ready
    assert not may_take_over(score([Trial(0, 0, 1.0, 2.0)] * 5), WON).ready
    assert "p = 0.563" in may_take_over(score([Trial(0, 0, 1.0, 2.0), Trial(0, 0, 2.0, 1.0)] * 20), WON).why
    loser = score([Trial(0, 0, 1.0, 2.0)] * 30 + [Trial(1, 0, None, 1.0)])
    assert may_take_over(loser, WON).why == "live it would have lost 1 failures"


DROPS = Observed(runs=40, drops=90, drops_seen=59)
ADDS = Observed(runs=40, adds=300, adds_seen=40, adds_broken=4, others_seen=400, others_broken=1)


@pytest.mark.parametrize(
    ("live", "ready", "why"),
    [
        (DROPS, True, "live all 59 of its drops that ran were right, and in replay it finds"),
        (replace(DROPS, drops_seen=58), False, "58 of its drops ran and were right: too few to tell"),
        (
            replace(DROPS, drops_broken=1),
            False,
            "live it would have dropped 1 that the change broke, 0 that ran kernels",
        ),
        (replace(DROPS, drops_engaged=2), False, "0 that the change broke, 2 that ran kernels"),
        (replace(DROPS, errors=1), False, "it broke in 1 of 40 runs"),
        (ADDS, True, "live 4 of 40 drawn tests that it adds broke (p = 0.000)"),
        (replace(ADDS, adds_broken=1), False, "exploration drew 40 of the tests that it adds: 1 broke, 0 ran kernels"),
        (replace(ADDS, adds_broken=0, adds_engaged=30), True, "live 30 of 40 drawn tests that it adds ran kernels"),
        (replace(ADDS, adds_broken=0, adds_engaged=22), False, "0 broke, 22 ran kernels"),
        (Observed(runs=9, adds=5), False, "exploration drew 0 of the tests that it adds"),
        (Observed(runs=9), False, "it never differed in 9 runs"),
        (replace(DROPS, adds=9, adds_seen=2), False, "exploration drew 2 of the tests that it adds"),
    ],
)
def test_a_rule_needs_replay_and_what_ran(live: Observed, ready: bool, why: str) -> None:
    answer = may_take_over(live, WON)
    assert answer.ready is ready, answer.why
    assert why in answer.why
    assert not may_take_over(live, None).ready


def test_broken_ones_among_what_it_adds_may_be_luck() -> None:
    assert breaks_more_often(Observed(adds_seen=1, adds_broken=1, others_seen=3)) == 0.25
    assert breaks_more_often(Observed(adds_seen=2, adds_broken=2, others_seen=2)) == pytest.approx(1 / 6)
    assert breaks_more_often(Observed(adds_seen=5, others_seen=5, others_broken=2)) == 1.0
    assert breaks_more_often(Observed()) == 1.0


def test_reports_are_read_alone_or_in_a_list_and_the_later_counts() -> None:
    one = {"subject": "ranker:weight", "change_recall": 0.9, "baseline": 0.8, "n": 30, "seconds_share": 1}
    assert read_reports(json.dumps(one), "r.json")["ranker:weight"].n == 30
    assert read_reports(json.dumps([one, {**one, "n": 40, "seed": "more"}]), "r.json")["ranker:weight"].n == 40


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "r.json:1:2: no JSON: "),
        ('[{"subject": "rule:x"}]', "r.json: 0.change_recall: Field required"),
        (
            '{"subject": "x", "change_recall": 1, "baseline": 1, "n": 1, "seconds_share": 1}',
            "r.json: 0.subject: String should match pattern",
        ),
        (
            '[{"subject": "rule:x", "change_recall": 97, "baseline": 1, "n": 1, "seconds_share": 1}]',
            "0.change_recall: Input should be less than or equal to 1",
        ),
    ],
)
def test_a_report_that_is_none_is_named_with_its_place(text: str, says: str) -> None:
    with pytest.raises(ReplayError) as caught:
        read_reports(text, "r.json")
    assert says in str(caught.value)
    assert "docs/plan.md" in str(caught.value)
