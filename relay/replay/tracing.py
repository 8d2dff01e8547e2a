"""A trace of variants: they run once without a fault, and what each ran is put together by test and op entry."""

from __future__ import annotations

import hashlib
import time
from collections import defaultdict
from collections.abc import Callable, Sequence

from relay.replay.process import Host
from relay.worker.replay.job import Order
from selector.discover.traced import Followed, Trace, Unit
from selector.model import TestId
from selector.replay.model import PoolVariant

BATCH = 100
VARIANT_S = 60.0
"""Following makes a test several times slower."""


def follow(
    host: Host,
    variants: Sequence[PoolVariant],
    torch: str,
    say: Callable[[str], None],
    until: float | None = None,
    now: Callable[[TestId], Followed] | None = None,
    of: int = 0,
) -> Trace:
    """What the variants that pass run, in an order drawn by their names, so that what there was time for (``until``, of
    time.monotonic) is a fair sample. Variants whose seconds are not known (0) count with those that following took.
    ``now``: what each test is now; ``of``: how many tests there are for the device. Raises ReplayBroken."""
    by_key = {variant.key: variant for variant in variants}
    seconds: dict[tuple[TestId, str | None], float] = defaultdict(float)
    functions: dict[str, dict[str, set[tuple[TestId, str | None]]]] = defaultdict(lambda: defaultdict(set))
    ops: dict[str, set[tuple[TestId, str | None]]] = defaultdict(set)
    tried: set[TestId] = set()
    keys = sorted(by_key, key=lambda key: hashlib.blake2b(key.encode()).digest())
    for start in range(0, len(keys), BATCH):
        if until is not None and time.monotonic() > until:
            say(f"time is over after {start} of {len(keys)} variants")
            break
        some = sorted(keys[start : start + BATCH])
        ended = host.run(Order(some, stop=False, trace=True, variant_s=VARIANT_S, total_s=BATCH * VARIANT_S))
        for key, told in ended.variants.items():
            tried.add(by_key[key].test)
            if told["raw"] != "passed":
                continue
            variant = by_key[key]
            unit = (variant.test, variant.op)
            seconds[unit] += variant.stands_for or told["s"] / variant.share
            for path, names in told.get("ran", {}).items():
                for name in names:
                    functions[path][name].add(unit)
            for op in told.get("ops", ()):
                ops[op].add(unit)
        say(f"followed: {min(start + BATCH, len(keys))} of {len(keys)} variants")
    order = sorted(seconds, key=lambda unit: (unit[0], unit[1] or ""))
    place = {unit: n for n, unit in enumerate(order)}

    def places(units: set[tuple[TestId, str | None]]) -> tuple[int, ...]:
        return tuple(sorted(place[unit] for unit in units))

    return Trace(
        torch,
        tuple(Unit(test, op, seconds[test, op]) for test, op in order),
        {path: {name: places(units) for name, units in names.items()} for path, names in functions.items()},
        {op: places(units) for op, units in ops.items()},
        {} if now is None else {test: now(test) for test in sorted(tried)},
        of,
    )
