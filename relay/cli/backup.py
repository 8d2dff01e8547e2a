"""The bodies of ``relay backup``, ``relay restore`` and ``relay audit``."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import typer

from relay.settings import load
from relay.store import audit as audit_rows
from relay.store import backup
from relay.store.db import open_engine, open_migrated, reading


def save(config: str | None, to: Path) -> int:
    """Writes the backup and says what is in it."""
    engine = open_migrated(load(config).database)
    found = backup.save(engine, to, time.time())
    engine.dispose()
    size = to.stat().st_size
    typer.echo(f"{to}: {sum(found.rows.values())} rows of {len(found.rows)} tables, {size / 1e6:.1f} MB")
    return 0


def restore(config: str | None, source: Path) -> int:
    """Fills the empty database of the settings."""
    engine = open_engine(load(config).database)
    found = backup.restore(engine, source, time.time())
    engine.dispose()
    made = datetime.fromtimestamp(found.made_at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    told = f"{sum(found.rows.values())} rows" + (":" if any(found.rows.values()) else "")
    typer.echo(f"Restored what {found.release} saved at {made}: {told}")
    for table, rows in found.rows.items():
        if rows:
            typer.echo(f"  {rows:>9}  {table}")
    return 0


def show(
    config: str | None, limit: int, action: str | None, target: str | None, actor: str | None, as_json: bool
) -> int:
    """Prints the audit log, the newest first."""
    engine = open_migrated(load(config).database)
    with reading(engine) as conn:
        rows = audit_rows.listed(conn, limit=limit, action=action, target=target, actor=actor)
    engine.dispose()
    for row in rows:
        typer.echo(json.dumps(dict(row._mapping)) if as_json else _line(row))
    if not rows:
        typer.echo("Nothing of that kind was done.", err=True)
    return 0


def _line(row: Any) -> str:
    when = datetime.fromtimestamp(row.at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    told = ", ".join(f"{key} {value}" for key, value in row.detail.items() if value not in (None, ""))
    return f"{when}  {row.actor}  {row.action}  {row.target}  {told}"
