"""Rankers, rules and models on trial: what they would have run, beside what did run. Nobody acts on it before it wins.

A candidate gives an order of the tests that it would run within the same budget. Once the run has its verdict, both are
held against the tests that the change broke: which ones it would not have run, and how long until the first failed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import comb

from selector.model import TestId


@dataclass(frozen=True, slots=True)
class Ranked:
    """What a ranker sees of a test: ``value`` 0..2 (1 and more: the change edits it), ``seconds`` it costs, and how
    often it failed in how many trusted runs."""

    test: TestId
    value: float
    seconds: float
    failures: int = 0
    runs: int = 0


def by_value(one: Ranked) -> tuple[float, float, TestId]:
    """In force: edited tests, then how directly the change reaches a test, the cheap first."""
    return (-one.value, one.seconds, one.test)


def by_density(one: Ranked) -> tuple[float, float, TestId]:
    """On trial: edited tests, then the chance of a failure for each second that finding it costs."""
    chance = one.value * (one.failures + 1) / (one.runs + 2)
    return (0.0 if one.value >= 1 else 1.0, -chance / max(one.seconds, 0.05), one.test)


Ranker = Callable[[Ranked], tuple[float, float, TestId]]
IN_FORCE: tuple[str, Ranker] = ("value", by_value)
ON_TRIAL: Mapping[str, Ranker] = {"density": by_density}


def orders(tests: Sequence[Ranked], capacity: float, rankers: Mapping[str, Ranker]) -> dict[str, tuple[TestId, ...]]:
    """What each ranker would run within ``capacity`` seconds of all workers together, in its order."""
    found = {}
    for name, ranker in rankers.items():
        spent = 0.0
        kept: list[TestId] = []
        for one in sorted(tests, key=ranker):
            if spent + one.seconds > capacity and kept:
                break
            spent += one.seconds
            kept.append(one.test)
        found[name] = tuple(kept)
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


def may_take_over(live: Score, replay_recall: float | None, replay_in_force: float | None) -> tuple[bool, str]:
    """Whether a candidate may be put in force, and why (not). It must win in replay *and* live; a person does it."""
    if replay_recall is None or replay_in_force is None:
        return False, "it was not replayed"
    if replay_recall < replay_in_force:
        return False, f"in replay it finds {replay_recall:.1%}, what is in force finds {replay_in_force:.1%}"
    if live.misses:
        return False, f"live it would have lost {live.misses} failures"
    if live.wins + live.losses < 20 or live.p > 0.05:
        return False, f"live it won {live.wins} of {live.wins + live.losses} runs (p = {live.p:.3f})"
    return True, f"won {live.wins} of {live.wins + live.losses} runs live, and replay"
