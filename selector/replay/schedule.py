"""Which variants have to run under a fault, so that every strategy's question is answered for as little as possible.

A variant that does not reach the fault's statement cannot tell it from sound code, so it is known to survive.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence

from selector.replay.model import KILLED, Fault
from selector.replay.strategies import Pool

FULL = 20
"""Faults on which every variant runs, without a stop at the first failure, for the recall of tests."""


def to_run(order: Sequence[str], reached: Collection[str], known: Mapping[str, str]) -> list[str]:
    """What of a strategy's order must still run to know its first failure: all that could fail before the first that
    is known to. Empty when that is known, or when nothing of it can fail."""
    found = []
    for key in order:
        if key not in reached:
            continue
        if known.get(key) == KILLED:
            break
        if key not in known:
            found.append(key)
    return found


def first_failure(order: Sequence[str], known: Mapping[str, str], pool: Pool) -> float | None:
    """Seconds of tests until the first failure, it included; None when none of them fails."""
    spent = 0.0
    for key in order:
        spent += pool.variants[key].seconds
        if known.get(key) == KILLED:
            return spent
    return None


def full_subset(faults: Sequence[Fault], seed: str, count: int = FULL) -> frozenset[str]:
    """The faults that are run to the end: drawn from those that some variant kills."""
    ids = sorted(fault.id for fault in faults)
    return frozenset(random.Random(f"{seed} full").sample(ids, min(count, len(ids))))
