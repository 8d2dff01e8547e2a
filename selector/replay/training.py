"""What a replay teaches: of each planned test of a fault, what a ranker sees of it and whether it failed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from selector.plan.learning import Example
from selector.replay.model import KILLED, Fault
from selector.replay.strategies import Case, Pool, ranked_tests


def examples(
    faults: Sequence[Fault], pool: Pool, cases: Mapping[str, Case], known: Mapping[str, Mapping[str, str]]
) -> Iterator[Example]:
    """Of faults of the writing kinds that some variant kills. Tests of which nobody knows what they would do are left
    out: some of their variants reach the fault, none is known to fail, and not all have run."""
    for fault in faults:
        ran = known.get(fault.id, {})
        case = cases.get(fault.id)
        if fault.scoring or case is None or KILLED not in ran.values():
            continue
        reached = pool.reached(fault.id)
        seen = ranked_tests(case, pool)
        for one in case.chosen:
            keys = [variant.key for variant in pool.variants_of(one)]
            if not keys:
                continue
            failed = any(ran.get(key) == KILLED for key in keys)
            if failed or all(key in ran for key in keys if key in reached):
                yield Example(fault.id, seen[one], failed)
