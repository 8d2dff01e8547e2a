"""Forgets by age what is not needed any more: results and plans first, runs later, and the dashboard's rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog
from sqlalchemy import Connection, Engine

from relay.settings import Settings
from relay.store import retention

log = structlog.get_logger(__name__)
DAY_S = 86400.0
RUNS = 5
"""Runs a transaction: one may have ten thousand results, and nobody who must answer waits long behind it."""
ROWS = 500
AT_ONCE = 200
"""Transactions of a kind that one look makes at most; the next look goes on."""


def forget(engine: Engine, settings: Settings, now: float) -> dict[str, Any]:
    """One look; -> how much was forgotten, by kind."""
    details, runs, hud = (
        now - days * DAY_S for days in (settings.keep_details_days, settings.keep_runs_days, settings.keep_hud_days)
    )
    forgotten = {
        "runs": _in_batches(engine, lambda conn: retention.drop_runs(conn, runs, RUNS)),
        "details": _in_batches(engine, lambda conn: retention.drop_details(conn, details, RUNS)),
        "hud_rows": _in_batches(engine, lambda conn: retention.drop_hud_rows(conn, hud, ROWS)),
        "others": _in_batches(engine, lambda conn: retention.drop_others(conn, runs, now, ROWS)),
    }
    if any(forgotten.values()):
        log.info("forgotten", **forgotten)
    return forgotten


def _in_batches(engine: Engine, drop: Callable[[Connection], int]) -> int:
    total = 0
    for _ in range(AT_ONCE):
        with engine.begin() as conn:
            dropped = drop(conn)
        total += dropped
        if not dropped:
            break
    return total
