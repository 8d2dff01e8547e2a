"""How ready each downstream is for the next level, and the demotions that are proposed. A person applies either, by a
change of the allowlist."""

from __future__ import annotations

from typing import Any

import structlog
from sqlalchemy import Connection, Engine

from relay.domain.readiness import WINDOW_S, Readiness, judge, measure
from relay.services import allowlists
from relay.settings import Settings
from relay.store import levels
from relay.store.db import reading

log = structlog.get_logger(__name__)


def readiness(conn: Connection, downstream_key: str, level: str, now: float) -> Readiness:
    """What the last two weeks show about a downstream at ``level``."""
    return measure(level, levels.samples(conn, downstream_key, now - WINDOW_S))


def step(engine: Engine, settings: Settings, now: float) -> dict[str, Any]:
    """Measures every downstream of the allowlist and keeps what follows. -> {downstream: proposed level}. Raises
    AllowlistError, SettingsError."""
    proposed = {}
    for entry in allowlists.current(engine, settings, now).entries:
        with reading(engine) as conn:
            measured = readiness(conn, entry.key, entry.level, now)
            before = levels.standing(conn, entry.key)
        after = judge(before, measured, now)
        with engine.begin() as conn:
            levels.put(conn, entry.key, entry.repo, after, measured.as_map(), now)
        if after.proposed is not None:
            proposed[entry.repo] = after.proposed
            if before is None or before.proposed is None:
                log.warning(
                    "demotion proposed", downstream=entry.repo, at=entry.level, to=after.proposed, reason=after.reason
                )
    return {"proposed": proposed}
