"""The figures of a replay: recalls with their intervals, seconds, times to the first failure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import mean, median

Z95 = 1.959964


@dataclass(frozen=True, slots=True)
class Rate:
    """``hits`` of ``of``, with the 95 % interval of Wilson's score; all of it where nothing was counted."""

    hits: int
    of: int

    @property
    def value(self) -> float:
        return self.hits / self.of if self.of else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        if not self.of:
            return 0.0, 1.0
        n, p, z = self.of, self.value, Z95
        centre = (p + z * z / (2 * n)) / (1 + z * z / n)
        half = z / (1 + z * z / n) * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return max(0.0, centre - half), min(1.0, centre + half)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One strategy on one fault that some variant kills. ``found``: it selects one of those; ``undecided``: time was
    over before that was known (counts as not found); ``share``: of the suite's seconds; ``first_s``: seconds of tests
    until the first failure; ``recalled``: of the variants that fail, where all were run: (selected, all)."""

    fault: str
    found: bool
    undecided: bool
    share: float
    first_s: float | None
    decide_s: float = 0.0
    usd: float = 0.0
    recalled: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """One strategy over a group of faults. Shares and seconds are means; ``first_s`` a median over faults found."""

    strategy: str
    changes: Rate
    undecided: int
    test_recall: float | None
    test_recall_faults: int
    share: float
    share_median: float
    first_s: float | None
    decide_s: float
    usd: float

    @property
    def saved(self) -> float:
        return 1.0 - self.share


def line(strategy: str, outcomes: Sequence[Outcome]) -> Line:
    """The figures of one strategy. Recall of tests is the mean over the faults that were run to the end."""
    recalls = [o.recalled[0] / o.recalled[1] for o in outcomes if o.recalled and o.recalled[1]]
    firsts = [o.first_s for o in outcomes if o.first_s is not None]
    return Line(
        strategy,
        Rate(sum(o.found for o in outcomes), len(outcomes)),
        sum(o.undecided for o in outcomes),
        mean(recalls) if recalls else None,
        len(recalls),
        _mean(o.share for o in outcomes),
        median([o.share for o in outcomes]) if outcomes else 0.0,
        median(firsts) if firsts else None,
        _mean(o.decide_s for o in outcomes),
        sum(o.usd for o in outcomes),
    )


def table(outcomes: Mapping[str, Sequence[Outcome]]) -> list[Line]:
    """A line a strategy."""
    return [line(strategy, of) for strategy, of in outcomes.items()]


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return mean(found) if found else 0.0
