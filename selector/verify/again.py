"""Re-runs: what was run again, what it showed, and what has to be run before a verdict can be given.

A verdict asks for runs in at most three rounds, each at most once: the base's results that are not known, together with
what failed for a worker's environment, on another worker; then what the change seems to break, alone, several times, on
both sides; then more of the same where that did not decide.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from selector.model import RunPlan, Side, TestId, VariantResult
from selector.verify.causes import representatives, signature
from selector.verify.faults import fault_of
from selector.verify.flakes import RULE, Finding, FlakeRule, Tally
from selector.verify.judge import Judge, fails, needs_base, needs_base_tests
from selector.verify.model import ShardProblem

MOST = 40
"""Variants that are run again one by one; the others of a cause share what those show."""
SECONDS = 120.0
"""Of re-runs a side and round; a hang that costs more by itself is run again all the same."""


@dataclass(frozen=True, slots=True)
class Step:
    """What is to be run next. ``round`` is 1 to 3. ``base``: keys on the base; ``base_tests``: tests on the base whose
    files gave no variant; ``elsewhere``: keys on the head, on another worker than before; ``again``: keys on both
    sides, ``repeat`` times, each alone in a fresh process."""

    round: int
    base: tuple[str, ...] = ()
    base_tests: tuple[TestId, ...] = ()
    elsewhere: tuple[str, ...] = ()
    again: tuple[str, ...] = ()
    repeat: int = 1

    def __bool__(self) -> bool:
        return bool(self.base or self.base_tests or self.elsewhere or self.again)


@dataclass(frozen=True)
class Again:
    """Results of the sides AGAIN and BASE_AGAIN of one run."""

    results: tuple[VariantResult, ...] = ()
    rule: FlakeRule = RULE
    _by_key: Mapping[tuple[Side, str], list[VariantResult]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_key: dict[tuple[Side, str], list[VariantResult]] = defaultdict(list)
        for result in self.results:
            if fault_of(result) is None:  # a worker's environment says nothing about either side
                by_key[result.side, result.key].append(result)
        object.__setattr__(self, "_by_key", by_key)

    def of(self, side: Side, key: str) -> Sequence[VariantResult]:
        return self._by_key.get((side, key), ())

    def tally(self, side: Side, key: str, lab: str | None = None) -> Tally:
        runs = [r for r in self.of(side, key) if lab is None or r.lab == lab]
        return Tally(len(runs), sum(map(fails, runs)))

    def finding(self, key: str) -> Finding:
        return self.rule.decide(self.tally(Side.AGAIN, key), self.tally(Side.BASE_AGAIN, key))

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(key for _, key in self._by_key)

    def effective(self, head: Sequence[VariantResult]) -> list[VariantResult]:
        """The head's results; one that an environment spoilt is replaced by what another worker got."""
        found = []
        for result in head:
            redone = self.of(Side.AGAIN, result.key) if fails(result) and fault_of(result) is not None else ()
            found.append(replace(redone[0], side=Side.HEAD) if redone else result)
        return found

    def base(self, base: Sequence[VariantResult]) -> list[VariantResult]:
        """The base's results; one that an environment spoilt, or that is not there, comes from the re-runs."""
        spoilt = {r.key for r in base if fails(r) and fault_of(r) is not None}
        kept = [r for r in base if r.key not in spoilt or not self.of(Side.BASE_AGAIN, r.key)]
        known = {r.key for r in kept}
        more = [self.of(Side.BASE_AGAIN, key)[0] for key in sorted(self.keys - known) if self.of(Side.BASE_AGAIN, key)]
        return [*kept, *(replace(r, side=Side.BASE) for r in more)]


def next_step(
    head: Sequence[VariantResult],
    base: Sequence[VariantResult],
    again: Again,
    problems: Sequence[ShardProblem],
    plan: RunPlan,
    judge: Judge,
    done: int,
) -> Step | None:
    """What a verdict still needs, None when it can be given. ``done`` rounds were asked for already; ``judge`` compares
    with ``base`` without regard to re-runs."""
    now_known = again.effective(head)
    if done < 1:
        known = {r.key for r in base}
        spoilt = tuple(sorted({r.key for r in head if fails(r) and fault_of(r) is not None})[:MOST])
        first = Step(
            1,
            tuple(key for key in needs_base(head) if key not in known),
            tuple(needs_base_tests(head, problems, plan)),
            spoilt,
        )
        if first:
            return first
    if done < 2:
        spoilt_keys = {r.key for r in head if fails(r) and fault_of(r) is not None}
        failing = [r for r in now_known if fails(r) and fault_of(r) is None]
        suspects = [r for r in failing if judge.suspect(r) or (r.key in spoilt_keys and r.key not in judge.base)]
        chosen = _affordable(representatives(suspects, MOST), again.rule.first)
        if chosen:
            return Step(2, again=chosen, repeat=again.rule.first)
    if done < 3:
        undecided = [r for r in now_known if r.key in again.keys and again.finding(r.key) == "more"]
        chosen = _affordable(undecided, again.rule.more)
        if chosen:
            return Step(3, again=chosen, repeat=again.rule.more)
    return None


def _affordable(results: Iterable[VariantResult], repeat: int) -> tuple[str, ...]:
    chosen: dict[str, None] = {}
    spent = 0.0
    for result in results:
        cost = max(result.seconds, 0.05) * repeat
        if spent + cost <= SECONDS or not chosen:
            chosen[result.key] = None
            spent += cost
    return tuple(chosen)


def shared_finding(again: Again, suspects: Sequence[VariantResult], result: VariantResult) -> Finding:
    """What re-runs showed of the other failures with this one's cause: broken when all of them are, else lost."""
    cause = signature(result)
    found = {again.finding(r.key) for r in suspects if r.key in again.keys and signature(r) == cause}
    return "broken" if found == {"broken"} else "lost"
