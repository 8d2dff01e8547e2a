"""Notices that this machine's clock was stepped, and sets right what the database says of the near future.

A pump looks at each round; what was written in between, and by transactions that began before the step, is set right in
the seconds after it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog
from sqlalchemy import Engine

from relay.store import clock_steps

log = structlog.get_logger(__name__)
STEP_S = 2.0
"""Less is a clock that is slewed, or a round that took long."""
AFTER_S = 20.0
"""So long after a step somebody may still write times of before: the longest call is 14 s."""
EVERY_S = 1.0


class Steps:
    """``look`` at each round; ``wall`` gives seconds since the epoch, ``monotonic`` seconds that nobody steps."""

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._monotonic = wall, monotonic
        self._offset = wall() - monotonic()
        self._back = 0.0
        self._until = self._again_at = float("-inf")

    def began(self, engine: Engine, lease_s: float, last_seen: float | None) -> None:
        """At the start: the clock may have been set back while nobody looked. ``last_seen``: when somebody did."""
        now = self._wall()
        if last_seen is not None and last_seen - now > STEP_S:
            self._set(engine, now, now - last_seen, lease_s)

    def look(self, engine: Engine, lease_s: float) -> bool:
        """True: it was stepped just now."""
        now = self._wall()
        offset = now - self._monotonic()
        by, self._offset = offset - self._offset, offset
        if abs(by) > STEP_S:
            self._set(engine, now, by, lease_s)
            return True
        if self._again_at <= self._monotonic() < self._until:
            self._again_at = self._monotonic() + EVERY_S
            with engine.begin() as conn:
                clock_steps.set_back(conn, now, self._back, lease_s, beyond=self._back / 2)
        return False

    def _set(self, engine: Engine, now: float, by: float, lease_s: float) -> None:
        try:
            with engine.begin() as conn:
                set_by = clock_steps.set_back if by < 0 else clock_steps.set_forward
                moved = set_by(conn, now, abs(by), lease_s)
        except BaseException:
            self._offset -= by  # not done: the next round sees the step again
            raise
        log.warning("this machine's clock was stepped", by_s=round(by, 1), rows=moved)
        if by < 0:
            self._back, self._again_at = -by, self._monotonic() + EVERY_S
            self._until = self._monotonic() + AFTER_S
