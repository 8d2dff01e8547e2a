"""Rankers on trial: what they would have run is weighed and never acted upon."""

from __future__ import annotations

from selector.model import TestId
from selector.plan.shadow import IN_FORCE, ON_TRIAL, Ranked, Score, Trial, may_take_over, orders, score, trial

A, B, C, D = (TestId("test/test_x.py", "TestX", f"test_{c}") for c in "abcd")
TESTS = [Ranked(A, 0.9, 30.0), Ranked(B, 0.5, 0.1, 3, 4), Ranked(C, 1.5, 1.0), Ranked(D, 0.1, 1.0)]
SECONDS = {r.test: r.seconds for r in TESTS}


def test_the_candidate_spends_the_same_budget_in_its_own_order() -> None:
    found = orders(TESTS, 32.0, {IN_FORCE[0]: IN_FORCE[1], **ON_TRIAL})
    assert found["value"] == (C, A, B)
    assert found["density"] == (C, B, D)


def test_a_trial_counts_what_would_have_been_lost_and_who_was_first() -> None:
    assert trial((C, B), (C, A, B), SECONDS, frozenset({B})) == Trial(0, 0, 1.1, 31.1)
    assert trial((C, B), (C, A, B), SECONDS, frozenset({A})) == Trial(1, 0, None, 31.0)


def test_it_takes_over_only_when_both_say_so_and_never_by_luck() -> None:
    winner = score([Trial(0, 0, 1.0, 2.0)] * 24 + [Trial(0, 0, 2.0, 1.0)] * 4)
    assert (winner.trials, winner.wins, winner.losses, winner.misses) == (28, 24, 4, 0)
    assert may_take_over(winner, 0.99, 0.98)[0]
    assert may_take_over(winner, None, None) == (False, "it was not replayed")
    assert not may_take_over(winner, 0.97, 0.98)[0]
    assert not may_take_over(score([Trial(0, 0, 1.0, 2.0)] * 5), 1.0, 1.0)[0]
    assert not may_take_over(score([Trial(0, 0, 1.0, 2.0), Trial(0, 0, 2.0, 1.0)] * 20), 1.0, 1.0)[0]
    loser = score([Trial(0, 0, 1.0, 2.0)] * 30 + [Trial(1, 0, None, 1.0)])
    assert may_take_over(loser, 1.0, 1.0) == (False, "live it would have lost 1 failures")
    assert score([]) == Score(0, 0, 0, 0, 1.0)
