"""What time it is where tokens are issued and judged, by the ``Date`` of its own answers.

A machine's clock may be wrong, and may be set right in one step. Tokens that we sign would then be refused, and good
ones refused by us, for as long as it lasts. Every answer of a service says what time it is there; from then on the
monotonic clock, which nobody steps, tells it on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime

import structlog

log = structlog.get_logger(__name__)
TOLERANCE_S = 30.0
"""Clocks that differ by less agree: an answer takes a while, and a ``Date`` has whole seconds."""


def date_of(header: str | None) -> float | None:
    """A ``Date`` header as seconds since the epoch; None where there is none or it is no date."""
    try:
        return parsedate_to_datetime(header).timestamp() if header else None
    except ValueError:
        return None


class TrueTime:
    """Called, gives seconds since the epoch: our own clock, or where it is wrong by what was ``heard``, that. Safe for
    threads."""

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._monotonic = wall, monotonic
        self._epoch: float | None = None
        self._wrong = False

    def heard(self, date: float | None) -> None:
        """A service has just said that it is ``date`` (seconds since the epoch)."""
        if date is None:
            return
        self._epoch = date - self._monotonic()
        off = self._wall() - date
        if (abs(off) > TOLERANCE_S) != self._wrong:
            self._wrong = not self._wrong
            log.warning(
                "this machine's clock is wrong" if self._wrong else "this machine's clock is right", by_s=int(off)
            )

    def __call__(self, ours: float | None = None) -> float:
        """``ours``: what our own clock shows, where the caller has looked already."""
        wall = self._wall() if ours is None else ours
        if self._epoch is None:
            return wall
        told = self._epoch + self._monotonic()
        return wall if abs(told - wall) <= TOLERANCE_S else told
