"""Which queue takes a shard: one whose live workers have the device, the torch and the runtime that it needs."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row

from relay.errors import RelayError
from relay.queue.names import shard_queue
from relay.store import workers


class NoQueue(RelayError):
    """There are workers, and none of them can ever take the job: said at once, waited for by nobody."""

    code = "no-queue"
    status = 409


def choose(alive: Sequence[Row[Any]], kind: str, torch: str) -> str | None:
    """The queue with the most live workers of this torch that run ``kind`` (an overlay needs more than tests alone);
    None where there is none. ``alive`` are workers of one device."""
    able = Counter(w.queue for w in alive if w.torch == torch and kind in w.runtimes)
    return min(able, key=lambda queue: (-able[queue], queue)) if able else None


def queue_of(conn: Connection, device: str, runtime: Mapping[str, Any], now: float) -> str:
    """The queue for a shard of ``runtime`` (its wire form). Where its workers are away, the one that they had,
    and else the one they will have on a machine like this: the status page says that nobody is there."""
    kind, torch = str(runtime.get("kind")), str(runtime.get("torch"))
    for known in (workers.alive(conn, device, now), workers.of_device(conn, device)):
        if found := choose(known, kind, torch):
            return found
    return shard_queue(device, platform.machine(), torch)


def refuse(device: str, others: Sequence[Row[Any]]) -> NoQueue:
    """The error for a job of a device that no live worker has, while ``others`` are there."""
    there = ", ".join(sorted({w.queue for w in others}))
    return NoQueue(
        f"no queue takes jobs of the device {device}: the live workers take from {there}",
        f"start a worker with RELAY_WORKER_DEVICE={device}",
    )
