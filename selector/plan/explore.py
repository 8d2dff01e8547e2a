"""Exploration: on some runs a few tests that nobody selected run as well, so that what selection misses is known.

Which runs explore and which tests they draw follows from the head's commit alone: neither luck nor an author's second
try changes it. Every unselected test is drawn by itself with the same known probability, and so the number of failures
that selection missed can be estimated without bias, however failures cluster.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

from selector.model import TestId

TEST_SECONDS = 0.5
"""What an unselected test is thought to cost: a handful of variants."""
CODE = "explore"
"""why the test is in the plan"""
DECIDED = "plan-explored"
"""the decision that put it there"""


@dataclass(frozen=True, slots=True)
class Exploration:
    """``fraction``: the probability with which each of ``population`` unselected tests was drawn."""

    fraction: float
    population: int
    tests: tuple[TestId, ...]


def explores(sha: str, share: float) -> bool:
    """Whether the run of this commit is one of the ``share`` (0..1) that explore."""
    return _unit(sha, "explore") < share


def draw(sha: str, unselected: Sequence[TestId], seconds: float) -> Exploration:
    """The tests that the run of this commit draws, to cost about ``seconds`` of one worker."""
    cost = TEST_SECONDS * len(unselected)
    fraction = min(1.0, seconds / cost) if cost else 0.0
    chosen = tuple(sorted(test for test in unselected if _unit(sha, str(test)) < fraction))
    return Exploration(fraction, len(unselected), chosen)


def _unit(*parts: str) -> float:
    return int.from_bytes(hashlib.sha256("\0".join(parts).encode()).digest()[:8], "big") / 2.0**64


@dataclass(frozen=True, slots=True)
class Explored:
    """What one exploring run found: tests that the change broke, among the selected and among the drawn."""

    fraction: float
    selected: int
    drawn: int


@dataclass(frozen=True, slots=True)
class Recall:
    """Of all tests that the changes of ``runs`` broke, the part that was selected: an unbiased estimate of the misses
    (drawn ones over their probability), and an interval that holds with ``confidence`` or more. None: nothing broke."""

    runs: int
    selected: int
    drawn: int
    missed: float
    estimate: float | None
    low: float | None
    high: float | None
    confidence: float = 0.95


def recall(runs: Sequence[Explored], confidence: float = 0.95) -> Recall:
    """The estimate. The interval is exact for one fraction; where it differs from run to run the worst ones are taken,
    which only widens it."""
    found = [run for run in runs if run.fraction > 0]
    selected, drawn = sum(r.selected for r in found), sum(r.drawn for r in found)
    missed = sum(r.drawn / r.fraction for r in found)
    if not found or not selected + drawn:
        return Recall(len(found), selected, drawn, missed, None, None, None, confidence)
    alpha = (1 - confidence) / 2
    fractions = [r.fraction for r in found]
    most = _most(drawn, min(fractions), alpha)
    least = _least(drawn, max(fractions), alpha)
    return Recall(
        len(found),
        selected,
        drawn,
        missed,
        selected / (selected + missed),
        selected / (selected + most) if selected else 0.0,
        selected / (selected + least),
        confidence,
    )


def _at_most(drawn: int, population: int, fraction: float) -> float:
    return sum(
        comb(population, k) * fraction**k * (1 - fraction) ** (population - k)
        for k in range(min(drawn, population) + 1)
    )


def _most(drawn: int, fraction: float, alpha: float) -> int:
    """The largest number of misses of which so few are drawn with a probability of at least ``alpha``."""
    most = drawn
    step = 1
    while _at_most(drawn, most + step, fraction) >= alpha:  # doubled, then narrowed down
        most, step = most + step, step * 2
    while step > 1:
        step //= 2
        if _at_most(drawn, most + step, fraction) >= alpha:
            most += step
    return most


def _least(drawn: int, fraction: float, alpha: float) -> int:
    """The smallest number of misses of which so many are drawn with a probability of at least ``alpha``."""
    least = drawn
    while least < drawn / fraction and 1 - _at_most(drawn - 1, least, fraction) < alpha:
        least += 1
    return least
