"""Which commits upstream has, as GitHub said it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, delete, select

from relay.store.schema import upstream_commit
from relay.store.upsert import upsert


def get(conn: Connection, sha: str) -> Row[Any] | None:
    return conn.execute(select(upstream_commit).where(upstream_commit.c.sha == sha)).one_or_none()


def remember(conn: Connection, sha: str, known: bool, now: float) -> None:
    """A commit that is there stays there; one that was not may come."""
    upsert(conn, upstream_commit, {"sha": sha}, {"known": known, "checked_at": now}, newer="checked_at")


def purge(conn: Connection, before: float) -> int:
    """Forgets those that upstream did not have when they were last asked for."""
    old = (upstream_commit.c.known.is_(False), upstream_commit.c.checked_at < before)
    return conn.execute(delete(upstream_commit).where(*old)).rowcount
