"""Versions of the allowlist that were once in force, for the record and as the last good one."""

from __future__ import annotations

import hashlib
from typing import Any

from sqlalchemy import Connection, Row, select
from sqlalchemy import update as sql_update

from relay.store.schema import allowlist_version
from relay.store.upsert import insert_once


def remember(conn: Connection, *, source: str, text: str, now: float) -> bool:
    """Makes ``text`` the newest version. False: it already is."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    current = newest(conn)
    if current is not None and current.digest == digest:
        return False
    row = {"digest": digest, "source": source, "text": text, "loaded_at": now}
    if not insert_once(conn, allowlist_version, row):  # an older version is in force again
        conn.execute(
            sql_update(allowlist_version)
            .where(allowlist_version.c.digest == digest)
            .values(source=source, loaded_at=now)
        )
    return True


def newest(conn: Connection) -> Row[Any] | None:
    """The version in force, or None before the first."""
    query = select(allowlist_version).order_by(allowlist_version.c.loaded_at.desc(), allowlist_version.c.id.desc())
    return conn.execute(query.limit(1)).one_or_none()
