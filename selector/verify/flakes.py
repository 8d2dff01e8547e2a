"""Is a failure the change's, or does the test fail now and then anyway? Counted re-runs, and an error with a bound.

A variant that failed with the change and passed without it once runs again on both sides, each time alone and in a
fresh process. Fifteen repeats of a test that fails at the same rate with and without the change are blamed on the
change with a probability of at most :func:`error_bound`, whatever that rate is (``tests/bench/flake_rule.py``
simulates it).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import comb
from typing import Literal

Finding = Literal["broken", "flaky", "passes-alone", "sometimes", "more", "lost"]
"""broken: fails more often with the change than chance explains; flaky: fails without the change as well, about as
often; passes-alone: passed every time it ran again; sometimes: fails now and then with the change and never without,
too seldom to blame the change; more: this many runs do not decide; lost: the runs did not take place"""


@dataclass(frozen=True, slots=True)
class Tally:
    """Re-runs of one variant on one side."""

    runs: int = 0
    failures: int = 0


@dataclass(frozen=True, slots=True)
class FlakeRule:
    """``first`` runs a side; where they do not decide, ``more`` a side; ``alpha``: how improbable the difference of all
    of them must be (Fisher's exact test, one-sided) before the change is blamed."""

    first: int = 6
    more: int = 9
    alpha: float = 0.002

    def decide(self, head: Tally, base: Tally) -> Finding:
        """What the re-runs say about a variant that failed with the change and passed without it."""
        if min(head.runs, base.runs) < self.first:
            return "lost"
        if head.runs < self.first + self.more or base.runs < self.first + self.more:
            return self._first(head, base)
        if excess(head, base) <= self.alpha:
            return "broken"
        if base.failures:
            return "flaky"
        return "sometimes" if head.failures else "passes-alone"

    def _first(self, head: Tally, base: Tally) -> Finding:
        if head.failures == head.runs and not base.failures:
            return "broken"
        if not head.failures and not base.failures:
            return "passes-alone"
        return "flaky" if head.failures <= base.failures else "more"


RULE = FlakeRule()


def excess(head: Tally, base: Tally) -> float:
    """The probability that at least so many of all failures fall to the head's side when the sides do not differ."""
    failures, runs = head.failures + base.failures, head.runs + base.runs
    ways = sum(
        comb(head.runs, k) * comb(base.runs, failures - k)
        for k in range(head.failures, min(failures, head.runs) + 1)
        if failures - k <= base.runs
    )
    return ways / comb(runs, failures)


def blame_probability(head_rate: float, base_rate: float, rule: FlakeRule = RULE) -> float:
    """The exact probability that the re-runs of a variant with these failure rates blame the change."""
    blamed = 0.0
    more = [(h, b) for h in range(rule.more + 1) for b in range(rule.more + 1)]
    for h in range(rule.first + 1):
        for b in range(rule.first + 1):
            chance = _binomial(rule.first, h, head_rate) * _binomial(rule.first, b, base_rate)
            found = rule.decide(Tally(rule.first, h), Tally(rule.first, b))
            if found == "broken":
                blamed += chance
            elif found == "more":
                all_runs = rule.first + rule.more
                blamed += chance * sum(
                    _binomial(rule.more, h2, head_rate) * _binomial(rule.more, b2, base_rate)
                    for h2, b2 in more
                    if rule.decide(Tally(all_runs, h + h2), Tally(all_runs, b + b2)) == "broken"
                )
    return blamed


@lru_cache(maxsize=8)
def error_bound(rule: FlakeRule = RULE) -> float:
    """The largest probability, over all failure rates in steps of 1 %, that a variant which fails as often without the
    change is blamed on it, once it has come to be re-run."""
    return max(blame_probability(rate / 100, rate / 100, rule) for rate in range(1, 100))


def _binomial(runs: int, failures: int, rate: float) -> float:
    return float(comb(runs, failures) * rate**failures * (1 - rate) ** (runs - failures))
