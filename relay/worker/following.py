"""What the variants of a followed shard run, as their processes say: taken line by line, bounded, and put together.

A test process speaks of the variant that it was told to run, and of functions and operators by name alone. Only of what
passed is anything kept: a test that fails may have ended anywhere.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

from relay.worker import protocol
from selector.discover.traced import Followed, Trace, Unit
from selector.model import TestId

PATH = re.compile(r"torch/[\w./+-]{1,240}\.py")
MOST_NAMES = 50_000
"""Functions and operators of one variant."""
LONGEST = 300
"""Characters of a qualified name."""
MOST_UNITS = 100_000
"""Tests and op entries of one shard."""
Key = tuple[TestId, str | None]


class Following:
    """Of one shard. ``torch``: the version that runs."""

    def __init__(self, torch: str) -> None:
        self._torch = torch
        self._tried: set[TestId] = set()
        self._units: dict[Key, int] = {}
        self._seconds: dict[int, float] = defaultdict(float)
        self._functions: dict[str, dict[str, set[int]]] = {}
        self._ops: dict[str, set[int]] = {}
        self._pending: list[tuple[str | None, str]] = []

    def begin(self) -> None:
        """Another process runs: what the last one said of a variant that it did not end is worth nothing."""
        self._pending.clear()

    def take(self, message: dict[str, Any]) -> None:
        """A line of the running variant: ``ran`` (path -> names of functions) or ``ops``. ProtocolError."""
        ran, ops = message.get("ran", {}), message.get("ops", [])
        if not isinstance(ran, dict) or not isinstance(ops, list) or len(message) != 1:
            raise protocol.ProtocolError("what a variant ran is not of the right kind")
        for path, names in ran.items():
            if PATH.fullmatch(path) is None or ".." in path or not isinstance(names, list):
                raise protocol.ProtocolError("what a variant ran names no source of torch")
            self._pending += [(path, _name(name)) for name in names]
        self._pending += [(None, _name(op)) for op in ops]
        if len(self._pending) > MOST_NAMES:
            raise protocol.ProtocolError(f"a variant that ran more than {MOST_NAMES} functions")

    def end(self, test: TestId, op: str | None, raw: str, seconds: float) -> None:
        """The running variant has ended."""
        self._tried.add(test)
        pending, self._pending = self._pending, []
        key = (test, op)
        if raw != "passed" or (key not in self._units and len(self._units) >= MOST_UNITS):
            return
        unit = self._units.setdefault(key, len(self._units))
        self._seconds[unit] += seconds
        for path, name in pending:
            names = self._ops if path is None else self._functions.setdefault(path, {})
            names.setdefault(name, set()).add(unit)

    def trace(self) -> Trace:
        """What was seen; its tests without fingerprints, which whoever asked for them knows."""
        return Trace(
            self._torch,
            tuple(Unit(test, op, round(self._seconds[n], 4)) for (test, op), n in self._units.items()),
            {path: _places(names) for path, names in self._functions.items()},
            _places(self._ops),
            {test: Followed("", "") for test in sorted(self._tried)},
        )


def _name(value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST or not value.isprintable():
        raise protocol.ProtocolError("what a variant ran has a name that is none")
    return value


def _places(names: dict[str, set[int]]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(sorted(units)) for name, units in names.items()}
