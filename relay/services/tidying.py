"""Forgets what is old: bodies of routed webhooks, ignored webhooks, used tokens, settled redeliveries, logs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog
from sqlalchemy import Connection, Engine

from relay.artifacts import artifacts
from relay.services import log_tails, printing
from relay.settings import Settings
from relay.store import agents, commits, deliveries, redeliveries

log = structlog.get_logger(__name__)
BATCH = 1000
"""Rows a transaction: nobody who must answer waits long behind it."""
DAY_S = 86400.0


def tidy(engine: Engine, settings: Settings, now: float) -> dict[str, Any]:
    """-> how much was forgotten, by kind."""
    bodies = now - settings.keep_bodies_days * DAY_S
    ignored = now - settings.keep_ignored_days * DAY_S
    forgotten = {
        "bodies": _in_batches(engine, lambda conn: deliveries.drop_bodies(conn, bodies, BATCH)),
        "ignored": _in_batches(engine, lambda conn: deliveries.drop_ignored(conn, ignored, BATCH)),
    }
    logs = now - settings.keep_logs_days * DAY_S
    store = artifacts(settings)
    forgotten["logs"] = _until_few(lambda: printing.forget(engine, store, logs, BATCH))
    details = now - settings.keep_details_days * DAY_S
    forgotten["log_tails"] = _until_few(lambda: log_tails.forget(engine, store, details, BATCH))
    with engine.begin() as conn:
        forgotten["redeliveries"] = redeliveries.purge(conn, ignored)
        forgotten["commits"] = commits.purge(conn, now - DAY_S)
    said = now - settings.agents.keep_days * DAY_S
    forgotten["agents"] = _in_batches(engine, lambda conn: agents.purge(conn, said, BATCH))
    if any(forgotten.values()):
        log.info("tidied", **forgotten)
    return forgotten


def _in_batches(engine: Engine, drop: Callable[[Connection], int]) -> int:
    def once() -> int:
        with engine.begin() as conn:
            return drop(conn)

    return _until_few(once)


def _until_few(drop: Callable[[], int]) -> int:
    total = 0
    while True:
        dropped = drop()
        total += dropped
        if dropped < BATCH:
            return total
