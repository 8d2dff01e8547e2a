"""Ids of our own rows: 32 hex digits, in the order of their making."""

from __future__ import annotations

import secrets
import time


def new_id(at: float | None = None) -> str:
    """32 hex digits: 12 of the time in milliseconds (``at``: seconds since the epoch, default now), 20 random. Sorted
    as text they are sorted by time, which keeps index inserts at the end of the tree."""
    millis = int((time.time() if at is None else at) * 1000) & ((1 << 48) - 1)
    return f"{millis:012x}{secrets.token_hex(10)}"
