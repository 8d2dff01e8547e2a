"""What a ranker is fitted to: planned tests, what a ranker saw of each, and whether the change broke it.

A test that nobody knows the answer of is no example: it did not run, or its failure may be an environment's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from selector.errors import SelectorError
from selector.model import TestId
from selector.plan.ranking import Ranked

LEAST = 10
"""Changes (or faults) that break something, before anything is learned."""
HELD_OUT = 0.25
"""Part of them that the metrics are of; the weights are fitted to the others."""
MOST_TESTS = 1_000
"""Examples that one change gives: none decides alone what is learned."""


class TooLittle(SelectorError):
    """There is too little to learn from."""

    code = "learn-too-little"


@dataclass(frozen=True, slots=True)
class Example:
    """A planned test of a change, or of a fault that stands for one. ``failed``: because of it."""

    change: str
    ranked: Ranked
    failed: bool


def of_change(
    change: str,
    seen: Mapping[TestId, Ranked],
    ran: Collection[TestId],
    broken: Collection[TestId],
    unsure: Collection[TestId],
) -> list[Example]:
    """The examples of one change: of its planned tests (``seen``), those that ``ran`` or that it broke. ``unsure``:
    tests that failed, and nobody knows whether because of it. What must run is left out, since no ranker orders it.
    Empty where it broke no test that a ranker orders: which of them to run first is then all the same."""
    found = [
        Example(change, ranked, test in broken)
        for test, ranked in sorted(seen.items())
        if not ranked.must_run and (test in broken or (test in ran and test not in unsure))
    ]
    found.sort(key=lambda one: hashlib.blake2b(str(one.ranked.test).encode()).digest())
    failing = next((one for one in found if one.failed), None)
    if failing is None:
        return []
    kept = found[:MOST_TESTS]
    return kept if any(one.failed for one in kept) else [*kept[:-1], failing]


def newest(ended: Mapping[str, float], part: float = HELD_OUT) -> frozenset[str]:
    """The changes that ended last (``ended``: seconds since the epoch, by change), at least one. What is learned of the
    older ones is held against them, as it would be in use."""
    order = sorted(ended, key=lambda change: (ended[change], change))
    return frozenset(order[len(order) - max(1, round(len(order) * part)) :]) if order else frozenset()
