"""Servers that take what waits, the oldest first, on a virtual clock. What is cancelled leaves the line, or its server
a heartbeat later."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

Later = Callable[[float, Callable[[float], None]], None]
"""Has something done at a time."""


@dataclass(slots=True)
class Work:
    """``done(at)`` is called when a server has ended it, not when it was cancelled."""

    seconds: float
    asked: float
    done: Callable[[float], None]
    began: float | None = None
    over: bool = False


@dataclass(slots=True)
class Pool:
    """``free`` of ``size`` servers. ``busy_s``: seconds that they worked, ``wasted_s`` of them on cancelled work."""

    size: int
    later: Later
    heartbeat_s: float
    free: int = field(init=False)
    line: deque[Work] = field(default_factory=deque)
    busy_s: float = 0.0
    wasted_s: float = 0.0
    longest: int = 0

    def __post_init__(self) -> None:
        self.free = self.size

    def add(self, work: Work, now: float) -> None:
        if self.free:
            self._start(work, now)
        else:
            self.line.append(work)
            self.longest = max(self.longest, len(self.line))

    def cancel(self, work: Work, now: float) -> None:
        """Nobody wants it any more."""
        if work.over:
            return
        work.over = True
        if work.began is None:
            return  # it is passed over when its turn comes
        until = min(now + self.heartbeat_s, work.began + work.seconds)
        self.busy_s -= work.began + work.seconds - until
        self.wasted_s += until - work.began
        self.later(until, self._next)

    def _start(self, work: Work, now: float) -> None:
        self.free -= 1
        work.began = now
        self.busy_s += work.seconds
        self.later(now + work.seconds, lambda at: self._end(work, at))

    def _end(self, work: Work, now: float) -> None:
        if work.over:
            return  # cancelled: its server is free already, or soon
        work.over = True
        work.done(now)
        self._next(now)

    def _next(self, now: float) -> None:
        self.free += 1
        while self.line and self.free:
            work = self.line.popleft()
            if not work.over:
                self._start(work, now)
