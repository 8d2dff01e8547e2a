"""Token buckets: how often somebody may ask. What is refused is not counted, so whoever waits as told gets through."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from relay.errors import RateLimited


class Buckets:
    """A bucket a name: ``burst`` at once, ``per_minute`` over time. In memory of one process, for threads.

    ``keep`` names at most are remembered, the ones seen last; a forgotten one starts full.
    """

    def __init__(
        self, per_minute: float, burst: int, *, keep: int = 10_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate = per_minute / 60.0
        self._burst = float(burst)
        self._keep = keep
        self._clock = clock
        self._lock = threading.Lock()
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str, what: str) -> None:
        """Takes one of ``name``'s. RateLimited, with the seconds until there is one, when its bucket is empty."""
        with self._lock:
            now = self._clock()
            level, at = self._levels.pop(name, (self._burst, now))
            level = min(self._burst, level + (now - at) * self._rate)
            wait = (1.0 - level) / self._rate
            self._levels[name] = (level - 1.0 if wait <= 0 else level, now)
            while len(self._levels) > self._keep:
                self._levels.popitem(last=False)
        if wait > 0:
            raise RateLimited(
                f"{name} sent more {what} than {self._rate * 60:.0f} a minute",
                "wait as Retry-After says; what was refused is not counted",
                retry_after=wait,
            )


def shared(state: Any, name: str, per_minute: float, burst: int) -> Buckets:
    """The buckets called ``name`` of an application (``app.state``), made when they are first asked for."""
    if not hasattr(state, name):
        setattr(state, name, Buckets(per_minute, burst))
    buckets: Buckets = getattr(state, name)
    return buckets
