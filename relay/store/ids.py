"""Ids of our own rows: 32 hex digits, in the order of their making."""

from __future__ import annotations

import secrets
import threading
import time

_RANDOM_BITS = 80
_lock = threading.Lock()
_last = 0


def new_id(at: float | None = None) -> str:
    """32 hex digits: 12 of the time in milliseconds (``at``: seconds since the epoch, default now), 20 random. Sorted
    as text they are sorted by time, which keeps index inserts at the end of the tree; those that one process makes
    within a millisecond are sorted by their making too."""
    global _last
    millis = int((time.time() if at is None else at) * 1000) & ((1 << 48) - 1)
    fresh = (millis << _RANDOM_BITS) | secrets.randbits(_RANDOM_BITS)
    with _lock:
        if fresh <= _last and (_last >> _RANDOM_BITS) == millis:
            fresh = _last + 1
        _last = fresh
    return f"{fresh:032x}"
