"""Names of the queues. Separate queues, not priorities: a long selection must not keep a webhook waiting."""

from __future__ import annotations

import re

ROUTE, SELECT, OUTBOX = "route", "select", "outbox"
QUEUES = (ROUTE, SELECT, OUTBOX)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}")


def shard_queue(device: str, machine: str, torch: str) -> str:
    """The queue of the workers of one environment: ``spyre.x86_64.torch-2.13`` (device, architecture as the kernel
    names it, torch's version without its last number, which changes no test's environment)."""
    return f"{device}.{machine}.torch-{'.'.join(torch.split('+')[0].split('.')[:2])}"


def is_shard_queue(name: str) -> bool:
    """Whether a worker may bring this name: none of the relay's own queues, and harmless in a broker's key."""
    return name not in QUEUES and _NAME.fullmatch(name) is not None
