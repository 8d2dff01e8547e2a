"""Versions of the documents we are steered by (allowlist, provider table) that were once in force, for the record and
as the last good ones."""

from __future__ import annotations

import hashlib
from typing import Any

from sqlalchemy import Connection, Row, select
from sqlalchemy import update as sql_update

from relay.store.schema import allowlist_version
from relay.store.upsert import insert_once


def remember(conn: Connection, *, source: str, text: str, now: float, kind: str = "allowlist") -> bool:
    """Makes ``text`` the newest version of its kind. False: it already is."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    current = newest(conn, kind)
    if current is not None and current.digest == digest:
        return False
    row = {"kind": kind, "digest": digest, "source": source, "text": text, "loaded_at": now}
    if not insert_once(conn, allowlist_version, row):  # an older version is in force again
        conn.execute(
            sql_update(allowlist_version)
            .where(allowlist_version.c.kind == kind, allowlist_version.c.digest == digest)
            .values(source=source, loaded_at=now)
        )
    return True


def newest(conn: Connection, kind: str = "allowlist") -> Row[Any] | None:
    """The version in force, or None before the first."""
    query = (
        select(allowlist_version)
        .where(allowlist_version.c.kind == kind)
        .order_by(allowlist_version.c.loaded_at.desc(), allowlist_version.c.id.desc())
    )
    return conn.execute(query.limit(1)).one_or_none()


def stamp(conn: Connection, kind: str = "allowlist") -> tuple[int, float] | None:
    """Changes when another version comes into force; cheap."""
    query = (
        select(allowlist_version.c.id, allowlist_version.c.loaded_at)
        .where(allowlist_version.c.kind == kind)
        .order_by(allowlist_version.c.loaded_at.desc(), allowlist_version.c.id.desc())
    )
    row = conn.execute(query.limit(1)).one_or_none()
    return (row.id, row.loaded_at) if row is not None else None
