"""How much an agent may use: steps, tokens, money and seconds, of all the questions of one run together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

CHARACTERS_A_TOKEN = 4
"""of English and code; only used beforehand, and where an endpoint does not say what it counted"""


@dataclass(frozen=True, slots=True)
class Limits:
    """``steps``: requests to the model; ``tokens``: read and written, together; ``usd``: by the prices that are known;
    ``seconds``: of wall time, from the first question on."""

    steps: int = 24
    tokens: int = 150_000
    usd: float = 0.50
    seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class Prices:
    """US dollars for a million tokens, read and written. 0: free, or not known; then ``usd`` limits nothing."""

    input_usd: float = 0.0
    output_usd: float = 0.0

    def of(self, read: int, written: int) -> float:
        return (read * self.input_usd + written * self.output_usd) / 1e6


class OverBudget(Exception):
    """The next step would use more than there is; the message says of what."""


@dataclass(frozen=True, slots=True)
class Used:
    steps: int = 0
    read: int = 0
    written: int = 0
    usd: float = 0.0
    seconds: float = 0.0


class Meter:
    """Counts one run's use. ``clock`` gives seconds, and its zero does not matter."""

    def __init__(self, limits: Limits, prices: Prices, clock: Callable[[], float]) -> None:
        self.limits, self.prices, self._clock = limits, prices, clock
        self._began: float | None = None
        self.steps = self.read = self.written = 0

    @property
    def usd(self) -> float:
        return self.prices.of(self.read, self.written)

    @property
    def seconds(self) -> float:
        return 0.0 if self._began is None else self._clock() - self._began

    @property
    def left_s(self) -> float:
        """Seconds that are left; the first look starts the clock."""
        if self._began is None:
            self._began = self._clock()
        return self.limits.seconds - self.seconds

    @property
    def steps_left(self) -> int:
        return max(0, self.limits.steps - self.steps)

    def used(self) -> Used:
        return Used(self.steps, self.read, self.written, round(self.usd, 6), round(self.seconds, 3))

    def since(self, before: Used) -> Used:
        """What was used after ``before``."""
        now = self.used()
        return Used(
            now.steps - before.steps,
            now.read - before.read,
            now.written - before.written,
            round(now.usd - before.usd, 6),
            round(now.seconds - before.seconds, 3),
        )

    def step(self, characters: int, most_written: int) -> None:
        """Counts one request beforehand. Raises OverBudget where it, with an answer of ``most_written`` tokens, may go
        over what is left: what was sent is paid for, whatever comes back."""
        if self.left_s <= 0:
            raise OverBudget(f"{self.limits.seconds:g} s")
        if self.steps >= self.limits.steps:
            raise OverBudget(f"{self.limits.steps} steps")
        read = characters // CHARACTERS_A_TOKEN
        if self.read + self.written + read + most_written > self.limits.tokens:
            raise OverBudget(f"{self.limits.tokens} tokens")
        if self.usd + self.prices.of(read, most_written) > self.limits.usd:
            raise OverBudget(f"{self.limits.usd:g} US dollars")
        self.steps += 1

    def count(self, read: int, written: int, characters: int, answered: int) -> None:
        """What a request used: as the endpoint says, but no less than half of what the text itself suggests."""
        self.read += max(read, characters // (2 * CHARACTERS_A_TOKEN))
        self.written += max(written, answered // (2 * CHARACTERS_A_TOKEN))
