"""A claim that is kept while its work goes on: a step may take longer than a dead process's claim should last."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog
from sqlalchemy import Engine, Update
from sqlalchemy.exc import DBAPIError

log = structlog.get_logger(__name__)


@contextmanager
def kept(engine: Engine, every_s: float, renewal: Callable[[], Update], **about: str) -> Iterator[None]:
    """Executes ``renewal()`` every ``every_s`` seconds while the body runs; ``about`` goes into the log."""
    stop = threading.Event()

    def renew() -> None:
        while not stop.wait(every_s):
            try:
                with engine.begin() as conn:
                    conn.execute(renewal())
            except DBAPIError as exc:
                # the next beat may be in time; if not, another process does the step and this one's work is dropped
                log.warning("claim not renewed", **about, error=str(exc.orig))

    thread = threading.Thread(target=renew, name="claim", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
