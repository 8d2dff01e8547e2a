"""Deliveries: webhooks as GitHub sent them, claimed once by their delivery id."""

from __future__ import annotations

import json
import zlib
from typing import Any

from sqlalchemy import Connection, Row, select, update

from relay.store.schema import delivery
from relay.store.upsert import insert_once


def pack(body: bytes) -> bytes:
    """A raw body as it is stored."""
    return zlib.compress(body, 6)


def unpack(stored: bytes) -> Any:
    """The JSON value of a stored body."""
    return json.loads(zlib.decompress(stored))


def claim(
    conn: Connection,
    *,
    delivery_id: str,
    event: str,
    action: str | None,
    repo: str | None,
    body: bytes,
    now: float,
) -> bool:
    """Stores a wanted delivery (``body`` as ``pack`` made it), due for routing. False: its id was claimed before."""
    came = {"id": delivery_id, "event": event, "action": action, "repo": repo, "received_at": now, "attempts": 0}
    return insert_once(conn, delivery, {**came, "state": "received", "body": body, "due_at": now})


def claim_ignored(
    conn: Connection,
    *,
    delivery_id: str,
    event: str,
    action: str | None,
    repo: str | None,
    code: str,
    reason: str,
    now: float,
) -> bool:
    """Remembers that a delivery came and why it was ignored, without its body. False: its id was claimed before."""
    came = {"id": delivery_id, "event": event, "action": action, "repo": repo, "received_at": now, "attempts": 0}
    return insert_once(conn, delivery, {**came, "state": "ignored", "code": code, "reason": reason})


def lock(conn: Connection, delivery_id: str) -> Row[Any] | None:
    """The delivery's row, locked until the transaction's end, or None. (On SQLite the transaction is the lock.)"""
    return conn.execute(select(delivery).where(delivery.c.id == delivery_id).with_for_update()).one_or_none()


def finish(conn: Connection, delivery_id: str, *, state: str, code: str, reason: str) -> None:
    """Ends the routing of a delivery: ``state`` is routed or ignored, and nothing is due any more."""
    conn.execute(
        update(delivery).where(delivery.c.id == delivery_id).values(state=state, code=code, reason=reason, due_at=None)
    )


def note(conn: Connection, delivery_id: str, *, code: str, reason: str) -> None:
    """Says why a delivery is not routed yet; it stays due."""
    conn.execute(
        update(delivery)
        .where(delivery.c.id == delivery_id, delivery.c.state == "received")
        .values(code=code, reason=reason)
    )
