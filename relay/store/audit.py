"""Who did what on the outside, and what people did here: one row an action, never changed, forgotten by age alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select

from relay.store.schema import audit

RELAY = "relay"
"""The actor of what the relay does by itself."""


def entry(
    action: str,
    target: str,
    *,
    now: float,
    actor: str = RELAY,
    detail: Mapping[str, Any] | None = None,
    dispatch_id: str | None = None,
) -> dict[str, Any]:
    """A row. ``action``: ``noun.verb``, as ``dispatch.sent``, ``outbox.retry``; ``target``: owner/repo, a host, a test;
    ``actor``: ``relay``, a login, or ``cli:`` and the name of a user of the machine. ``detail`` has no secrets."""
    return {
        "at": now,
        "actor": actor[:255],
        "action": action[:64],
        "target": target[:255],
        "detail": dict(detail or {}),
        "dispatch_id": dispatch_id,
    }


def record(conn: Connection, entries: Sequence[Mapping[str, Any]]) -> None:
    """Writes rows of ``entry`` in the transaction of what they are about."""
    if entries:
        conn.execute(insert(audit), [dict(one) for one in entries])


def listed(
    conn: Connection,
    *,
    limit: int,
    before: int | None = None,
    action: str | None = None,
    target: str | None = None,
    actor: str | None = None,
    dispatch_id: str | None = None,
) -> Sequence[Row[Any]]:
    """Rows, the newest first; ``before``: the id where the last page ended; ``action`` may be a noun alone."""
    query = select(audit).order_by(audit.c.id.desc()).limit(limit)
    if before is not None:
        query = query.where(audit.c.id < before)
    if action is not None:
        one = action if "." in action else action + "."
        query = query.where(audit.c.action.startswith(one, autoescape=True))
    if target is not None:
        query = query.where(audit.c.target == target)
    if actor is not None:
        query = query.where(audit.c.actor == actor)
    if dispatch_id is not None:
        query = query.where(audit.c.dispatch_id == dispatch_id)
    return conn.execute(query).all()


def purge(conn: Connection, before: float, limit: int) -> int:
    """Forgets up to ``limit`` rows from before ``before``; -> how many."""
    old = select(audit.c.id).where(audit.c.at < before).order_by(audit.c.at).limit(limit)
    return conn.execute(delete(audit).where(audit.c.id.in_(old))).rowcount
