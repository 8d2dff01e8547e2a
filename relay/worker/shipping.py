"""Sends a shard's log to the relay, piece by piece, while it grows. A log that cannot be sent costs no result."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import structlog

from relay.errors import LeaseLost, RelayError, Unavailable
from relay.worker.client import Client, patient

log = structlog.get_logger(__name__)
PIECE = 1 << 20
"""Bytes that a call carries."""
EVERY_S = 2.0
PATIENCE_S = 10.0
"""Seconds that the rest of a log waits for the relay at the end of its shard."""


class Shipping:
    """The log of one lease."""

    def __init__(self, client: Client, shard_id: str, path: Path) -> None:
        self._client, self._id, self._path = client, shard_id, path
        self._sent = 0
        self._sent_at = time.monotonic()
        self._off = False

    def go_on(self) -> None:
        """Sends what has gathered: whole pieces at once, less than one now and then. LeaseLost."""
        if self._off:
            return
        due = time.monotonic() - self._sent_at >= EVERY_S
        try:
            while piece := self._next():
                if len(piece) < PIECE and not due:
                    return
                self._send(piece)
                if len(piece) < PIECE:
                    return
        except Unavailable:
            return  # it is all still in the file

    def finish(self, stop: Callable[[], bool]) -> None:
        """Sends the rest, for as long as PATIENCE_S. LeaseLost."""
        until = time.monotonic() + PATIENCE_S
        while not self._off and (piece := self._next()):
            try:
                patient(partial(self._send, piece), until=until, stop=stop)
            except Unavailable as exc:
                log.warning("the end of a log is lost", shard=self._id, sent=self._sent, why=exc.message)
                return

    def _next(self) -> bytes:
        try:
            with open(self._path, "rb") as file:
                file.seek(self._sent)
                return file.read(PIECE)
        except FileNotFoundError:
            return b""  # nothing was printed yet

    def _send(self, piece: bytes) -> None:
        try:
            self._client.log(self._id, self._sent, piece)
        except (Unavailable, LeaseLost):
            raise
        except RelayError as exc:
            log.warning("the relay takes no log of this shard", shard=self._id, why=exc.message)
            self._off = True
            return
        self._sent += len(piece)
        self._sent_at = time.monotonic()
