"""What else than upstream's source decides whether a test runs: the machine, and what a config lifts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Environment:
    """``missing``: packages and libraries that are not there, in small letters (``scipy``); ``slow``: whether tests
    that upstream marks slow run; None: not known, and no rule goes by it."""

    missing: frozenset[str] = frozenset()
    slow: bool | None = None


UNKNOWN = Environment()


@dataclass(frozen=True, slots=True)
class Lifts:
    """What a config lifts for one test: ``devices``: types whose limits (``@onlyCUDA``, ``only_for="cpu"``) let this
    device in as well; ``dtypes``: those it is tried with beside its own."""

    devices: frozenset[str] = frozenset()
    dtypes: frozenset[str] = frozenset()


NOTHING = Lifts()
