"""Names of the queues. Separate queues, not priorities: a long selection must not keep a webhook waiting."""

from __future__ import annotations

ROUTE, SELECT, OUTBOX = "route", "select", "outbox"
QUEUES = (ROUTE, SELECT, OUTBOX)


def shard_queue(device: str) -> str:
    """The queue of the workers that emulate ``device``."""
    return f"shards.{device}"
