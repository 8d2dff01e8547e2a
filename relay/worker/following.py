"""What the variants of a followed shard run, as their processes say: taken line by line, bounded, and put together.

A test process speaks of the variant that it was told to run, and of functions and operators by name alone. Only of what
passed is anything kept: a test that fails may have ended anywhere.
"""

from __future__ import annotations

from typing import Any

from relay.worker import protocol
from selector.discover.traced import Followed, Gathering, Trace, is_name, is_source
from selector.model import TestId

MOST_NAMES = 50_000
"""Functions and operators of one variant."""
MOST_UNITS = 100_000
"""Tests and op entries of one shard."""


class Following:
    """Of one shard. ``torch``: the version that runs."""

    def __init__(self, torch: str) -> None:
        self._torch = torch
        self._found = Gathering()
        self._ran: dict[str, list[str]] = {}
        self._ops: list[str] = []
        self._count = 0

    def begin(self) -> None:
        """Another process runs: what the last one said of a variant that it did not end is worth nothing."""
        self._ran, self._ops, self._count = {}, [], 0

    def take(self, message: dict[str, Any]) -> None:
        """A line of the running variant: ``ran`` (path -> names of functions) or ``ops``. ProtocolError."""
        ran, ops = message.get("ran", {}), message.get("ops", [])
        if not isinstance(ran, dict) or not isinstance(ops, list) or len(message) != 1:
            raise protocol.ProtocolError("what a variant ran is not of the right kind")
        for path, names in ran.items():
            if not is_source(path) or not isinstance(names, list):
                raise protocol.ProtocolError("what a variant ran names no source of torch")
            self._ran.setdefault(path, []).extend(self._names(names))
        self._ops += self._names(ops)

    def _names(self, names: list[Any]) -> list[str]:
        if not all(map(is_name, names)):
            raise protocol.ProtocolError("what a variant ran has a name that is none")
        self._count += len(names)
        if self._count > MOST_NAMES:
            raise protocol.ProtocolError(f"a variant that ran more than {MOST_NAMES} functions")
        return names

    def end(self, test: TestId, op: str | None, raw: str, seconds: float) -> None:
        """The running variant has ended."""
        self._found.tried.add(test)
        if raw == "passed" and ((test, op) in self._found or len(self._found) < MOST_UNITS):
            self._found.passed(test, op, seconds, self._ran, self._ops)
        self.begin()

    def trace(self) -> Trace:
        """What was seen; its tests without fingerprints, which whoever asked for them knows."""
        return self._found.trace(self._torch, {test: Followed("", "") for test in sorted(self._found.tried)})
