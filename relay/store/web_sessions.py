"""Who has signed in: a row a session. The cookie holds a random token, the table only its digest."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select

from relay.store.schema import web_session


def digest(token: str) -> str:
    """What the table keeps of a cookie's token."""
    return hashlib.sha256(token.encode()).hexdigest()


def begin(
    conn: Connection, token: str, *, github_id: int, login: str, teams: Iterable[str], now: float, expires_at: float
) -> None:
    """A new session; sessions that have ended by themselves are forgotten."""
    conn.execute(delete(web_session).where(web_session.c.expires_at <= now))
    conn.execute(
        insert(web_session).values(
            id=digest(token),
            github_id=github_id,
            login=login,
            teams=sorted(teams),
            created_at=now,
            expires_at=expires_at,
        )
    )


def get(conn: Connection, token: str, now: float) -> Row[Any] | None:
    """The session of ``token`` while it lasts."""
    query = select(web_session).where(web_session.c.id == digest(token), web_session.c.expires_at > now)
    return conn.execute(query).one_or_none()


def end(conn: Connection, token: str) -> bool:
    """Ends a session; whether there was one."""
    return conn.execute(delete(web_session).where(web_session.c.id == digest(token))).rowcount > 0
