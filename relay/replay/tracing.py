"""A trace of variants: they run once without a fault, and what each ran is put together by test and op entry."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence

from relay.replay.process import Host
from relay.worker.replay.job import Order
from selector.discover.traced import Followed, Gathering, Trace
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
    found = Gathering()
    keys = sorted(by_key, key=lambda key: hashlib.blake2b(key.encode()).digest())
    for start in range(0, len(keys), BATCH):
        if until is not None and time.monotonic() > until:
            say(f"time is over after {start} of {len(keys)} variants")
            break
        some = sorted(keys[start : start + BATCH])
        ended = host.run(Order(some, stop=False, trace=True, variant_s=VARIANT_S, total_s=BATCH * VARIANT_S))
        for key, told in ended.variants.items():
            variant = by_key[key]
            found.tried.add(variant.test)
            if told["raw"] == "passed":
                seconds = variant.stands_for or told["s"] / variant.share
                found.passed(variant.test, variant.op, seconds, told.get("ran", {}), told.get("ops", ()))
        say(f"followed: {min(start + BATCH, len(keys))} of {len(keys)} variants")
    return found.trace(torch, {} if now is None else {test: now(test) for test in sorted(found.tried)}, of)
