"""Calls of GitHub under the relay's own budget an installation and minute (`relay.domain.circuit.grant`), counted
against GitHub's limit an hour."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from relay.domain.circuit import WINDOW_S, grant
from relay.simulate.pool import Later

HOURLY = 5000
"""Requests an hour that an installation of an App has at least (GitHub: 5,000 to 12,500, by its size)."""


@dataclass(slots=True)
class _Place:
    window_at: float = 0.0
    used: int = 0
    line: deque[tuple[float, Callable[[float], None]]] = field(default_factory=deque)
    waking: bool = False


@dataclass(slots=True)
class Calls:
    """``hours``: calls by (owner, hour). ``waits``: seconds between asked and left, of every call."""

    later: Later
    budget: int
    call_s: float
    places: dict[str, _Place] = field(default_factory=dict)
    hours: Counter[tuple[str, int]] = field(default_factory=Counter)
    waits: list[float] = field(default_factory=list)
    tokens: dict[str, float] = field(default_factory=dict)

    def ask(self, owner: str, now: float, done: Callable[[float], None]) -> None:
        """One call on an owner's installation; ``done`` when it was answered."""
        place = self.places.setdefault(owner, _Place())
        place.line.append((now, done))
        self._send(owner, place, now)

    def _send(self, owner: str, place: _Place, now: float) -> None:
        granted, place.window_at, place.used = grant(place.window_at, place.used, len(place.line), now, self.budget)
        for _ in range(granted):
            asked, done = place.line.popleft()
            calls = 1
            if self.tokens.get(owner, -1.0) < now:  # an installation's token holds for an hour
                self.tokens[owner] = now + 3600.0
                calls = 2
            self.hours[owner, int(now // 3600)] += calls
            self.waits.append(now - asked)
            self.later(now + calls * self.call_s, done)
        if place.line and not place.waking:
            place.waking = True
            self.later(place.window_at + WINDOW_S, lambda at: self._wake(owner, place, at))

    def _wake(self, owner: str, place: _Place, now: float) -> None:
        place.waking = False
        self._send(owner, place, now)

    def most_in_an_hour(self) -> tuple[str, int]:
        """The owner and its calls in its worst hour; ("", 0) without any."""
        if not self.hours:
            return "", 0
        (owner, _), most = max(self.hours.items(), key=lambda item: (item[1], item[0]))
        return owner, most
