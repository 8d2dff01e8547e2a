"""Token buckets: how often somebody may ask. What is refused is not counted, so whoever waits as told gets through."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from fastapi import Request

from relay.errors import RateLimited
from relay.settings import Settings

ACTS_PER_MINUTE_AND_BURST = (60.0, 30)
SIGN_INS_PER_MINUTE_AND_BURST = (20.0, 10)


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


@dataclass(frozen=True)
class Limits:
    """The buckets of an application, by what is asked: pages by address, actions by person, sign-ins by address."""

    reading: Buckets
    acting: Buckets
    signing_in: Buckets

    @classmethod
    def of(cls, settings: Settings) -> Limits:
        return cls(
            Buckets(settings.reads_per_minute, settings.reads_burst),
            Buckets(*ACTS_PER_MINUTE_AND_BURST),
            Buckets(*SIGN_INS_PER_MINUTE_AND_BURST),
        )


def limits_of(request: Request) -> Limits:
    """Those of the request's application."""
    found: Limits = request.app.state.limits
    return found
