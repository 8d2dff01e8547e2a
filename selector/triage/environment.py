"""What is known of the machine that runs the tests, as far as tests skip themselves by it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Environment:
    """``missing``: packages and libraries that are not there, in small letters (``scipy``); ``slow``: whether tests
    that upstream marks slow run; None: not known, and no rule goes by it."""

    missing: frozenset[str] = frozenset()
    slow: bool | None = None


UNKNOWN = Environment()
