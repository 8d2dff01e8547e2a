"""Webhooks that this process could not take in: after its start, and after each that it had to refuse, GitHub is asked
soon for what it sent meanwhile. Without it they would come with the next regular look, minutes later."""

from __future__ import annotations

import threading
import time

import structlog
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from relay.services import reconciling
from relay.settings import Settings

log = structlog.get_logger(__name__)
TRY_S = 1.0


class Missed:
    """``note`` from any thread or event loop: it never blocks. ``close`` at the end."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine = engine
        self._possible = reconciling.possible(settings)
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None
        self._wanted, self._stop = threading.Event(), threading.Event()

    def note(self) -> None:
        """Something may have been missed."""
        if not self._possible:
            return
        self._wanted.set()
        with self._guard:
            if self._thread is None:
                self._thread = threading.Thread(target=self._tell, name="missed", daemon=True)
                self._thread.start()

    def _tell(self) -> None:
        """Writes it down as soon as the database takes it."""
        while self._wanted.wait() and not self._stop.wait(TRY_S):
            self._wanted.clear()  # what is refused from here on is noted again
            try:
                reconciling.ask_soon(self._engine, time.time())
            except SQLAlchemyError as exc:
                log.warning("missed webhooks cannot be asked for yet", error=str(exc)[:200])
                self._wanted.set()

    def close(self) -> None:
        self._stop.set()
        self._wanted.set()
