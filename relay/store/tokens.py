"""Callback tokens that were used, with the answer that was given, until they expire by themselves."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, delete, select, update

from relay.store.schema import seen_token
from relay.store.upsert import insert_once


def use(conn: Connection, token_id: str, body_digest: str, expires_at: float) -> Row[Any] | None:
    """Uses a token in the caller's transaction. None: it was fresh, and ``answer`` is to be called before the commit;
    else the earlier use (``body_digest``, ``answer``). A twin at the same instant waits for the commit of the first."""
    values = {"jti": token_id, "body_digest": body_digest, "answer": None, "expires_at": expires_at}
    if insert_once(conn, seen_token, values):
        return None
    return conn.execute(select(seen_token).where(seen_token.c.jti == token_id)).one()


def answer(conn: Connection, token_id: str, given: dict[str, Any]) -> None:
    """Keeps the answer to the request that used the token."""
    conn.execute(update(seen_token).where(seen_token.c.jti == token_id).values(answer=given))


def purge(conn: Connection, before: float) -> int:
    """Forgets tokens that expired before ``before`` (seconds since the epoch; leave room for the leeway)."""
    return conn.execute(delete(seen_token).where(seen_token.c.expires_at < before)).rowcount
