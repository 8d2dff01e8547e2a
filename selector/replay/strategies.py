"""What each way of selecting tests would run of a replay's pool for one fault, in its order."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from selector.model import TestId
from selector.plan.ranking import LEAST_SECONDS, Ranked, Ranker
from selector.replay.model import Fault, PoolVariant

TRACED = "rules + trace"
MODELLED = "rules + model"
SHARE = 0.25
"""Part of the suite's seconds that the random strategy takes, and that a ranked one may use."""


@dataclass(frozen=True, slots=True)
class ChosenTest:
    """A test that the selector planned. ``ops``: the op entries it is limited to (empty: none); ``weight``: how
    directly the change reaches it; ``seconds``: what the plan thinks it costs; ``codes``: why, strongest first."""

    test: TestId
    ops: frozenset[str]
    weight: float
    seconds: float
    codes: tuple[str, ...]

    def runs(self, variant: PoolVariant) -> bool:
        return variant.test == self.test and (not self.ops or variant.op is None or variant.op in self.ops)


@dataclass(frozen=True, slots=True)
class Recorded:
    """A model's recorded answer for one fault: tests that it suspects, best first, and drops, what it cost (US dollars,
    seconds of waiting), and who answered."""

    suspects: tuple[TestId, ...]
    drop: frozenset[TestId]
    usd: float
    seconds: float
    by: str


@dataclass(frozen=True, slots=True)
class Case:
    """A fault, what the selector planned for its diff, in the plan's order, and how long that took (seconds)."""

    fault: Fault
    chosen: tuple[ChosenTest, ...]
    decide_s: float
    widened: bool = False
    recorded: Recorded | None = None
    traced: Case | None = None
    """the same fault where a trace of the tests is at hand"""
    modelled: Case | None = None
    """the same fault with ``recorded`` in force"""


class Pool:
    """The variants of a replay, in the order of their files."""

    def __init__(self, variants: Sequence[PoolVariant]) -> None:
        self.variants = {variant.key: variant for variant in variants}
        self._by_test: dict[TestId, list[PoolVariant]] = {}
        for variant in variants:
            self._by_test.setdefault(variant.test, []).append(variant)
        self.total = sum(variant.stands_for for variant in variants)

    def of(self, chosen: Sequence[ChosenTest]) -> list[str]:
        """The variants of these tests, limited to their ops, in the tests' order."""
        return list(dict.fromkeys(variant.key for one in chosen for variant in self.variants_of(one)))

    def variants_of(self, one: ChosenTest) -> list[PoolVariant]:
        return [variant for variant in self._by_test.get(one.test, ()) if one.runs(variant)]

    def share(self, keys: Sequence[str]) -> float:
        """The part of the suite's seconds that these stand for."""
        return sum(self.variants[key].stands_for for key in keys) / self.total if self.total else 0.0

    def seconds(self, keys: Sequence[str]) -> float:
        return sum(self.variants[key].seconds for key in keys)

    def first(self, keys: Sequence[str], share: float) -> list[str]:
        """As many of these, from the front, as fit into a part of the suite's seconds; at least one."""
        spent = 0.0
        kept: list[str] = []
        for key in keys:
            spent += self.variants[key].stands_for
            if spent > share * self.total and kept:
                break
            kept.append(key)
        return kept

    def reached(self, fault: str) -> set[str]:
        return {key for key, variant in self.variants.items() if fault in variant.hits}


def rules(case: Case, pool: Pool) -> list[str]:
    return pool.of(case.chosen)


def ranked(case: Case, pool: Pool, ranker: Ranker) -> list[str]:
    """What the rules select, in a ranker's order, as far as it fits into SHARE."""
    seen = ranked_tests(case, pool)
    return pool.first(pool.of(sorted(case.chosen, key=lambda one: (ranker(seen[one]), one.test))), SHARE)


def ranked_tests(case: Case, pool: Pool) -> dict[ChosenTest, Ranked]:
    """What a ranker sees of the planned tests, with the seconds that the pool measured."""
    mates = Counter(one.test.file for one in case.chosen)
    return {
        one: Ranked(
            one.test,
            must_run=False,
            weight=one.weight,
            seconds=sum(v.stands_for for v in pool.variants_of(one)) or max(one.seconds, LEAST_SECONDS),
            mates=mates[one.test.file],
            codes=one.codes,
            limited=bool(one.ops),
        )
        for one in case.chosen
    }


def everything(case: Case, pool: Pool) -> list[str]:
    return list(pool.variants)


def drawn(case: Case, pool: Pool, seed: str) -> list[str]:
    """A quarter of the suite's seconds, drawn anew for each fault."""
    keys = list(pool.variants)
    random.Random(f"{seed} {case.fault.id}").shuffle(keys)
    return pool.first(keys, SHARE)


def edited_files(case: Case, pool: Pool) -> list[str]:
    """The tests of test files that the change edits."""
    return [key for key, variant in pool.variants.items() if variant.test.file == case.fault.path]


def same_name(case: Case, pool: Pool) -> list[str]:
    """The tests of files that bear the changed file's name, or its folder's (``test_decomp``: ``_decomp/``)."""
    names = file_names(case.fault.path)
    return [key for key, variant in pool.variants.items() if not names.isdisjoint(file_names(variant.test.file))]


def file_names(path: str) -> frozenset[str]:
    """Names that a file may be known by: without ``test_``, underscores and case; a package's file by its folder."""
    folder, _, name = path.rpartition("/")
    stem = name.partition(".")[0]
    if stem == "__init__":
        stem = folder.rpartition("/")[2]
    plain = re.sub(r"[^a-z0-9]", "", stem.lower().removeprefix("test_"))
    singular = plain.removesuffix("s").removesuffix("osition")
    return frozenset({plain, singular} - {""})


def orders(case: Case, pool: Pool, seed: str, ranker: Ranker | None = None) -> dict[str, list[str]]:
    """Every strategy's variants, in its order."""
    found = {"rules": rules(case, pool)}
    if case.traced is not None:
        found[TRACED] = rules(case.traced, pool)
    if ranker is not None:
        found["rules + ranker"] = ranked(case, pool, ranker)
    if case.modelled is not None:
        found[MODELLED] = rules(case.modelled, pool)
    return found | {
        "random 25 %": drawn(case, pool, seed),
        "same-name files": same_name(case, pool),
        "edited files": edited_files(case, pool),
        "all": everything(case, pool),
    }
