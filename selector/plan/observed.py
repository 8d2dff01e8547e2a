"""What rules and models on trial said, held against what a run then showed.

What they would have dropped has mostly run, and shows what would have been lost. What they would have kept has not, but
for the tests that exploration drew: those are compared with the other drawn ones.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import astuple, dataclass

from selector.model import Stage, TestId


@dataclass(frozen=True, slots=True)
class Seen:
    """Tests of one run: those that ran, that the change broke, that ran a kernel, and that exploration drew."""

    ran: frozenset[TestId] = frozenset()
    broken: frozenset[TestId] = frozenset()
    engaged: frozenset[TestId] = frozenset()
    drawn: frozenset[TestId] = frozenset()


@dataclass(frozen=True, slots=True)
class Observed:
    """Counts of tests, of one run or of several added up. ``adds``: it would have kept them and what is in force did
    not; ``drops``: the reverse; ``*_seen``: those of them that ran; ``others_*``: drawn tests that it would not have
    kept either; ``errors``: runs in which it broke."""

    runs: int = 0
    adds: int = 0
    adds_seen: int = 0
    adds_broken: int = 0
    adds_engaged: int = 0
    others_seen: int = 0
    others_broken: int = 0
    drops: int = 0
    drops_seen: int = 0
    drops_broken: int = 0
    drops_engaged: int = 0
    errors: int = 0

    def __add__(self, other: Observed) -> Observed:
        return Observed(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


def observe(
    stage: Stage, adds: Collection[TestId], drops: Collection[TestId], seen: Seen, *, error: bool = False
) -> Observed:
    """One subject in one run. That a test ran kernels speaks for keeping it in triage; most tests do, and so it says
    nothing about whether the change reaches them."""
    added = frozenset(adds) & seen.drawn & seen.ran
    others = (seen.drawn & seen.ran) - added
    dropped = frozenset(drops) & seen.ran
    return Observed(
        runs=1,
        adds=len(adds),
        adds_seen=len(added),
        adds_broken=len(added & seen.broken),
        adds_engaged=len(added & seen.engaged) if stage is Stage.TRIAGE else 0,
        others_seen=len(others),
        others_broken=len(others & seen.broken),
        drops=len(drops),
        drops_seen=len(dropped),
        drops_broken=len(dropped & seen.broken),
        drops_engaged=len(dropped & seen.engaged),
        errors=int(error),
    )
