"""Whose turn it is to write to an SQLite file, across processes.

SQLite lets one writer at a time; the others sleep and ask again, so under load some wait for seconds while newcomers
pass them. Here writers wait in the kernel on a lock of a file beside the database, and are woken when it is free. Those
with ``first`` (the web process: somebody waits for its answer) wait for that lock alone. Everybody else passes a gate
first, one at a time, and opens it for the next only after the lock was given back: an answer waits for one of them.
"""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path

_holding = threading.local()


class Turn:
    """One connection's place in the queue. ``take`` before BEGIN, ``give`` after COMMIT or ROLLBACK."""

    def __init__(self, database: Path, first: bool) -> None:
        self._key = str(database)
        self._main = os.open(f"{database}-turn", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._gate = -1 if first else os.open(f"{database}-gate", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._taken = False

    def take(self) -> None:
        held: set[str] = _holding.__dict__.setdefault("keys", set())
        if self._key in held:
            # it would wait for itself for ever
            raise RuntimeError(f"a write transaction on {self._key} inside another of the same thread")
        if self._gate >= 0:
            fcntl.flock(self._gate, fcntl.LOCK_EX)
        fcntl.flock(self._main, fcntl.LOCK_EX)
        held.add(self._key)
        self._taken = True

    def give(self) -> None:
        if self._taken:
            self._taken = False
            _holding.keys.discard(self._key)
            fcntl.flock(self._main, fcntl.LOCK_UN)
            if self._gate >= 0:
                fcntl.flock(self._gate, fcntl.LOCK_UN)

    def close(self) -> None:
        self.give()
        os.close(self._main)
        if self._gate >= 0:
            os.close(self._gate)
