"""Rankers on trial: what they would have run is weighed and never acted upon."""

from __future__ import annotations

from selector.model import TestId
from selector.plan.ranking import Ranked
from selector.plan.shadow import Score, Trial, orders, score, trial

A, B, C, D = (TestId("test/test_x.py", "TestX", f"test_{c}") for c in "abcd")
TESTS = [
    Ranked(A, False, 0.9, 30.0, 4),
    Ranked(B, False, 0.5, 0.1, 4, broke=3, runs=4),
    Ranked(C, True, 0.1, 1.0, 4),
    Ranked(D, False, 0.1, 1.0, 4),
]
SECONDS = {r.test: r.seconds for r in TESTS}


def test_the_candidate_spends_the_same_budget_in_its_own_order() -> None:
    found = orders(TESTS, 32.05)
    assert found["expected-value"] == (C, B, D), "thirty seconds for one test wait"
    assert found["weight"] == (C, A)
    assert orders(TESTS, 0.5) == {"expected-value": (C,), "weight": (C,)}, "what must run does so in every order"


def test_a_trial_counts_what_would_have_been_lost_and_who_was_first() -> None:
    assert trial((C, B), (C, A, B), SECONDS, frozenset({B})) == Trial(0, 0, 1.1, 31.1)
    assert trial((C, B), (C, A, B), SECONDS, frozenset({A})) == Trial(1, 0, None, 31.0)


def test_wins_by_luck_are_told_apart() -> None:
    winner = score([Trial(0, 0, 1.0, 2.0)] * 24 + [Trial(0, 0, 2.0, 1.0)] * 4)
    assert (winner.trials, winner.wins, winner.losses, winner.misses) == (28, 24, 4, 0)
    assert winner.p < 0.001
    assert score([Trial(0, 0, 1.0, 2.0), Trial(0, 0, 2.0, 1.0)] * 20).p > 0.4
    assert score([]) == Score(0, 0, 0, 0, 1.0)
