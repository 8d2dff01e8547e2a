"""What the tests of a shard printed, one after another, each below a line that names it. The agent sends it on, and a
result says which bytes of it are its own (docs/worker-api.md#the-log)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from relay.worker.logs import Log

MOST = 256 << 20
"""Bytes of a shard's log; what is printed after them is left out, and the log says so."""
CHUNK = 1 << 20
FULL = f"=== the log of this shard is full: {MOST >> 20} MiB\n".encode()


class Printed:
    """Appends to a file that the agent reads beside us. Without a path it keeps nothing."""

    def __init__(self, path: Path | None) -> None:
        self._fd = -1
        self._size = 0
        if path is not None:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            self._size = os.fstat(self._fd).st_size

    def keep(self, title: str, log: Log, start: int, end: int, message: str | None) -> dict[str, Any]:
        """Keeps ``title``, the bytes ``start`` to ``end`` of ``log``, and ``message``; -> where they stand, as a result
        tells it; nothing where there is nothing to keep."""
        if self._fd < 0 or self._size >= MOST or (start >= end and not message):
            return {}
        begin = self._size
        self._write(f"=== {title}\n".encode("utf-8", "replace"))
        end = min(end, start + MOST - self._size)
        last = b"\n"
        while start < end:
            part = os.pread(log.fd, min(CHUNK, end - start), start)
            if not part:
                break
            self._write(part)
            start, last = start + len(part), part[-1:]
        if last != b"\n":
            self._write(b"\n")
        if message:
            self._write(message.encode("utf-8", "replace").rstrip() + b"\n")
        stands = {"log_begin": begin, "log_end": self._size}
        if self._size >= MOST:
            self._write(FULL)
        return stands

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _write(self, data: bytes) -> None:
        while data:
            done = os.write(self._fd, data)
            self._size += done
            data = data[done:]
