"""The bodies of ``relay quarantine …``: flaky tests that a person has taken note of, each with an end."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime
from datetime import time as clock

from rich.console import Console
from rich.table import Column, Table
from sqlalchemy import insert, select, update

from relay.errors import NotFound, SettingsError
from relay.settings import load
from relay.store.db import open_migrated
from relay.store.schema import quarantine
from selector.model import TestId

MOST_DAYS = 90
"""Longer than that nobody looks at it again."""


def add(config: str | None, test: str, variant: str, reason: str, issue: str, until: str, evidence: str) -> int:
    """Puts a test (or one variant) into quarantine until the end of a day (UTC). Raises SettingsError."""
    try:
        TestId.parse(test)
        day = date.fromisoformat(until)
    except ValueError as exc:
        raise SettingsError(str(exc), "test/test_x.py::TestX::test_a, and a day as 2026-12-31") from exc
    settings, now = load(config), time.time()
    end = datetime.combine(day, clock.max, UTC).timestamp()
    if not now < end < now + (MOST_DAYS + 1) * 86400:
        hint = "quarantine ends; a limit of the device belongs into a config"
        raise SettingsError(f"{until} is not one of the next {MOST_DAYS} days", hint)
    if not reason.strip() or not issue.strip():
        raise SettingsError("a quarantine needs a reason and an issue", "--reason TEXT --issue owner/repo#12")
    engine = open_migrated(settings.database)
    values = {"device": settings.device, "test": test, "variant": variant, "reason": reason, "issue": issue}
    with engine.begin() as conn:
        conn.execute(insert(quarantine).values(**values, evidence=evidence, until=end, created_at=now))
    engine.dispose()
    return show(config)


def end(config: str | None, id: int) -> int:
    """Takes an entry out before its time. Raises NotFound."""
    engine = open_migrated(load(config).database)
    with engine.begin() as conn:
        entry = update(quarantine).where(quarantine.c.id == id, quarantine.c.ended_at.is_(None))
        if not conn.execute(entry.values(ended_at=time.time())).rowcount:
            raise NotFound(f"there is no entry {id} in quarantine", "relay quarantine list shows them")
    engine.dispose()
    return show(config)


def show(config: str | None, console: Console | None = None) -> int:
    """Every entry, those that have ended too."""
    console = console or Console(highlight=False)
    engine = open_migrated(load(config).database)
    table = Table("id", "state", Column("test", overflow="fold"), "variant", "until", "issue", "reason")
    with engine.connect() as conn:
        for row in conn.execute(select(quarantine).order_by(quarantine.c.until)):
            state = "ended" if row.ended_at else "holds" if row.until > time.time() else "expired"
            until = datetime.fromtimestamp(row.until, UTC).date().isoformat()
            table.add_row(str(row.id), state, row.test, row.variant or "all", until, row.issue, row.reason)
    engine.dispose()
    console.print(table)
    return 0
