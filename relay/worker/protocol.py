"""What a runner's processes say to each other: JSON lines over pipes, bounded, and believed only as far as checked.

The *host* (torch, the collected files) and its forked *children* run upstream's code; the supervisor runs none. A
child may say about the variant it was told to run next, and nothing else.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

MAX_LINE = 1 << 16
"""Longest line that is taken, in bytes."""
MAX_ORDER = 1 << 28
"""Longest order of a supervisor, which may hold a shard's configs, in bytes."""
MAX_MESSAGE = 4096
"""Longest failure message of a result, in characters."""
LOG_TAIL = 8192
"""Bytes of a variant's output that a failure keeps."""


class ProtocolError(Exception):
    """The other side sent something it must not."""


def send(fd: int, message: dict[str, Any], limit: int = MAX_LINE) -> None:
    """Writes one line; blocks until it is written."""
    data = json.dumps(message, default=str).encode("utf-8", "replace") + b"\n"
    if len(data) > limit:
        raise ProtocolError(f"a message of {len(data)} bytes")
    while data:
        data = data[os.write(fd, data) :]


class Lines:
    """The lines that come in from one pipe. ``fd`` is read without blocking."""

    def __init__(self, fd: int, limit: int = MAX_LINE) -> None:
        self.fd, self._limit = fd, limit
        self.closed = False
        self._buffer = b""
        os.set_blocking(fd, False)

    def read(self) -> Iterator[dict[str, Any]]:
        """Whatever is complete by now. Raises ProtocolError on a line that is too long, not JSON or not an object."""
        while not self.closed:
            try:
                chunk = os.read(self.fd, MAX_LINE)
            except BlockingIOError:
                return
            except OSError:
                chunk = b""
            if not chunk:
                self.closed = True
                return
            *lines, self._buffer = (self._buffer + chunk).split(b"\n")
            for line in lines:
                yield _parse(line)
            if len(self._buffer) > self._limit:
                raise ProtocolError(f"a line of more than {self._limit} bytes")

    def drop(self) -> None:
        """Throws away what is there: the sender is gone, or cannot be believed."""
        self._buffer = b""
        while not self.closed:
            try:
                chunk = os.read(self.fd, MAX_LINE)
            except BlockingIOError:
                return
            except OSError:
                chunk = b""
            self.closed = not chunk


def _parse(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as exc:
        raise ProtocolError("a line that is not JSON") from exc
    if not isinstance(value, dict):
        raise ProtocolError("a line that is not a JSON object")
    return value


def text(value: Any, limit: int = MAX_MESSAGE) -> str | None:
    """A string of at most ``limit`` characters, or None; anything else is a ProtocolError."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise ProtocolError("a text that is not a string")
    clean: str = value.replace("\x00", "")  # PostgreSQL takes none
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"
