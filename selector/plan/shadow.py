"""Rankers on trial: what they would have run, beside what did run. Nobody acts on it before it wins.

A candidate gives an order of the same tests within the same budget; the must-run tests come first in every order.
Once the run has its verdict, both are held against the tests that the change broke: which ones it would not have run,
and how long until the first failed. Rules and models on trial: :mod:`selector.plan.observed`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb

from selector.model import TestId
from selector.plan.ranking import IN_FORCE, Ranked, Ranker, arrange, by_weight, within

ON_TRIAL: Mapping[str, Ranker] = {"weight": by_weight}


def orders(
    tests: Sequence[Ranked],
    capacity: float,
    rankers: Mapping[str, Ranker] | None = None,
    more: Mapping[str, Ranker] | None = None,
) -> dict[str, tuple[TestId, ...]]:
    """What each ranker (the one in force, those on trial, and ``more`` that came from files) would run within
    ``capacity`` seconds of all workers together, in its order."""
    found = {}
    for name, ranker in {**(rankers or {IN_FORCE[0]: IN_FORCE[1], **ON_TRIAL}), **(more or {})}.items():
        ordered = arrange(tests, ranker)
        found[name] = tuple(one.test for one in ordered[: within(ordered, capacity)])
    return found


@dataclass(frozen=True, slots=True)
class Trial:
    """One run of a candidate beside what is in force: tests that the change broke and that each would not have run, and
    seconds to the first of them (None: neither came to one)."""

    missed: int
    missed_in_force: int
    first_s: float | None
    first_in_force_s: float | None


def trial(
    order: Sequence[TestId], in_force: Sequence[TestId], seconds: Mapping[TestId, float], broken: frozenset[TestId]
) -> Trial:
    """Holds both orders against what was broken. ``seconds``: what each test costs."""
    return Trial(
        len(broken - set(order)),
        len(broken - set(in_force)),
        _first(order, seconds, broken),
        _first(in_force, seconds, broken),
    )


def _first(order: Sequence[TestId], seconds: Mapping[TestId, float], broken: frozenset[TestId]) -> float | None:
    spent = 0.0
    for test in order:
        spent += seconds.get(test, 0.0)
        if test in broken:
            return round(spent, 3)
    return None


@dataclass(frozen=True, slots=True)
class Score:
    """``wins`` and ``losses``: runs in which the candidate came to the first failure sooner or later; ``misses``: tests
    that it would have lost and what is in force did not; ``p``: how improbable so many wins are by chance."""

    trials: int
    wins: int
    losses: int
    misses: int
    p: float


def score(trials: Sequence[Trial]) -> Score:
    told = [t for t in trials if t.first_s is not None and t.first_in_force_s is not None]
    wins = sum(t.first_s < t.first_in_force_s for t in told if t.first_s is not None and t.first_in_force_s is not None)
    same = sum(t.first_s == t.first_in_force_s for t in told)
    losses = len(told) - wins - same
    lost = sum(max(0, t.missed - t.missed_in_force) for t in trials)
    n = wins + losses
    p = sum(comb(n, k) for k in range(wins, n + 1)) / 2**n if n else 1.0
    return Score(len(trials), wins, losses, lost, p)
