"""Exploration: deterministic by commit, unbiased, with an interval that holds."""

from __future__ import annotations

import random

import pytest

from selector.model import TestId
from selector.plan.explore import TEST_SECONDS, Explored, draw, explores, recall

TESTS = [TestId("test/test_x.py", "TestX", f"test_{n}") for n in range(2000)]


def sha(n: int) -> str:
    return f"{n:040x}"


def test_the_share_of_runs_follows_from_the_commit_alone() -> None:
    chosen = [explores(sha(n), 0.1) for n in range(5000)]
    assert chosen == [explores(sha(n), 0.1) for n in range(5000)]
    assert 400 < sum(chosen) < 600
    assert not any(explores(sha(n), 0.0) for n in range(100))
    assert all(explores(sha(n), 1.0) for n in range(100))


def test_every_unselected_test_is_drawn_with_the_same_probability() -> None:
    drawn = [draw(sha(n), TESTS, 100 * TEST_SECONDS) for n in range(400)]
    assert {d.fraction for d in drawn} == {0.05}
    assert {d.population for d in drawn} == {2000}
    assert draw(sha(3), TESTS, 100 * TEST_SECONDS) == drawn[3]
    often = [sum(test in set(d.tests) for d in drawn) for test in TESTS[:50]]
    assert 12 < sum(often) / len(often) < 28, "20 of 400"
    assert max(often) < 45
    assert draw(sha(1), [], 10.0).tests == ()


def test_an_estimate_by_hand() -> None:
    told = recall([Explored(0.1, 18, 0), Explored(0.1, 2, 1), Explored(0.0, 99, 0)])
    assert (told.runs, told.selected, told.drawn, told.missed) == (2, 20, 1, 10.0)
    assert told.estimate == pytest.approx(20 / 30)
    assert told.low is not None
    assert told.high is not None
    assert told.low < 20 / 30 < told.high
    nothing = recall([Explored(0.1, 5, 0)] * 3)
    assert (nothing.estimate, nothing.high) == (1.0, 1.0)
    assert nothing.low is not None
    assert 0.2 < nothing.low < 0.5, "fifteen found and none drawn at 10 % proves little"
    assert recall([]).estimate is None
    assert recall([Explored(0.1, 0, 0)]).low is None


def test_the_estimate_is_unbiased_and_the_interval_holds_though_failures_cluster() -> None:
    rng = random.Random("recall")
    truth, estimates, held, rounds = 60 / (60 + 40), [], 0, 400
    for _ in range(rounds):
        # forty misses, all of two changes; thirty runs
        misses = [20, 20] + [0] * 28
        runs = [Explored(0.1, 2, sum(rng.random() < 0.1 for _ in range(m))) for m in misses]
        told = recall(runs)
        estimates.append(told.missed)
        held += told.low is not None and told.high is not None and told.low <= truth <= told.high
    assert abs(sum(estimates) / rounds - 40) < 3.5, "within three standard errors"
    assert held / rounds > 0.93
