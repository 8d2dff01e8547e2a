"""The bodies of ``relay quarantine …``: flaky tests that a person has taken note of, each with an end."""

from __future__ import annotations

import getpass
import time
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Column, Table
from sqlalchemy import select

from relay.cli.terminal import Terminal
from relay.services import quarantining
from relay.settings import load
from relay.store.db import open_migrated
from relay.store.schema import quarantine


def add(config: str | None, test: str, variant: str, reason: str, issue: str, until: str, evidence: str) -> int:
    """Puts a test (or one variant) into quarantine until the end of a day (UTC). Raises BadRequest."""
    settings = load(config)
    engine = open_migrated(settings.database)
    with engine.begin() as conn:
        quarantining.add(
            conn,
            device=settings.device,
            test=test,
            variant=variant,
            reason=reason,
            issue=issue,
            until=until,
            evidence=evidence,
            actor=f"cli:{getpass.getuser()}",
            now=time.time(),
        )
    engine.dispose()
    return show(config)


def end(config: str | None, id: int) -> int:
    """Takes an entry out before its time. Raises NotFound."""
    engine = open_migrated(load(config).database)
    with engine.begin() as conn:
        quarantining.end(conn, id, actor=f"cli:{getpass.getuser()}", now=time.time())
    engine.dispose()
    return show(config)


def show(config: str | None, console: Console | None = None) -> int:
    """Every entry, those that have ended too."""
    console = console or Terminal()
    engine = open_migrated(load(config).database)
    table = Table("id", "state", Column("test", overflow="fold"), "variant", "until", "issue", "reason")
    with engine.connect() as conn:
        for row in conn.execute(select(quarantine).order_by(quarantine.c.until)):
            state = "ended" if row.ended_at else "holds" if row.until > time.time() else "expired"
            until = datetime.fromtimestamp(row.until, UTC).date().isoformat()
            table.add_row(str(row.id), state, row.test, row.variant or "all", until, row.issue, row.reason)
    engine.dispose()
    console.print(table if table.row_count else "No test is in quarantine.")
    return 0
