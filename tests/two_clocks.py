"""Clocks that a test moves."""

from __future__ import annotations


class Clocks:
    """A machine's clock and the one that nobody steps, moved by hand."""

    def __init__(self, wall: float = 1_000_000.0, monotonic: float = 50.0) -> None:
        self.wall, self.monotonic = wall, monotonic

    def pass_(self, seconds: float) -> None:
        self.wall += seconds
        self.monotonic += seconds
