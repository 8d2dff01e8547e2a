"""The dashboard's table, where the relay is its own dashboard: one row a key, joined and never set back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, func, select, update

from relay.domain.hud_intake import join
from relay.store.schema import hud_row
from relay.store.upsert import insert_once

BRIEF = [column for column in hud_row.c if column.name not in ("body", "repo_key")]


def store(conn: Connection, row: Mapping[str, Any], now: float) -> str:
    """Stores a row of relay.domain.hud_intake, or joins it to the one with its key; -> the row's status then."""
    if insert_once(conn, hud_row, {**row, "created_at": now, "updated_at": now}):
        return str(row["status"])
    known = conn.execute(select(hud_row).where(hud_row.c.key == row["key"]).with_for_update()).one()
    changes = join(dict(known._mapping), row)
    conn.execute(update(hud_row).where(hud_row.c.key == row["key"]).values(**changes, updated_at=now))
    return str(changes.get("status", known.status))


def listed(
    conn: Connection,
    *,
    repo: str | None = None,
    upstream: str | None = None,
    pr: int | None = None,
    sha: str | None = None,
    event: str | None = None,
    since: float = 0.0,
    limit: int = 500,
) -> Sequence[Row[Any]]:
    """Rows made after ``since``, the newest first."""
    wanted: list[ColumnElement[bool]] = [hud_row.c.created_at >= since]
    for column, value in (
        (hud_row.c.repo_key, repo.casefold() if repo else None),
        (hud_row.c.pr_number, pr),
        (hud_row.c.head_sha, sha),
        (hud_row.c.event, event),
    ):
        if value is not None:
            wanted.append(column == value)
    if upstream is not None:
        wanted.append(func.lower(hud_row.c.upstream) == upstream.casefold())
    query = select(*BRIEF).where(*wanted).order_by(hud_row.c.created_at.desc(), hud_row.c.key).limit(limit)
    return conn.execute(query).all()
