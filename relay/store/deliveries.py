"""Deliveries: webhooks as GitHub sent them, claimed once by their delivery id."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, delete, exists, func, insert, select, update

from relay.store.schema import delivery, dispatch, rerun
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
    told_at: str | None = None,
) -> bool:
    """Stores a wanted delivery (``body`` as ``pack`` made it), due for routing; ``told_at``: GitHub's own time of what
    it tells (ISO 8601). False: its id was claimed before."""
    came = {"id": delivery_id, "event": event, "action": action, "repo": repo, "received_at": now, "attempts": 0}
    return insert_once(conn, delivery, {**came, "told_at": told_at, "state": "received", "body": body, "due_at": now})


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
    state: str = "ignored",
) -> bool:
    """Remembers that a delivery came and why it was ignored, or that what it said was noted (``state`` noted), without
    its body. False: its id was claimed before."""
    came = {"id": delivery_id, "event": event, "action": action, "repo": repo, "received_at": now, "attempts": 0}
    return insert_once(conn, delivery, {**came, "state": state, "code": code, "reason": reason})


def add_asked(conn: Connection, delivery_id: str, *, repo: str | None, reason: str, now: float) -> None:
    """Stands for what a person asked for at a page, which no webhook brought: done with, without a body."""
    came = {"id": delivery_id, "event": "rerun", "action": "asked", "repo": repo, "received_at": now, "attempts": 0}
    conn.execute(insert(delivery).values(**came, state="routed", code="rerun-asked", reason=reason))


def get(conn: Connection, delivery_id: str) -> Row[Any] | None:
    return conn.execute(select(delivery).where(delivery.c.id == delivery_id)).one_or_none()


def has_body(conn: Connection, delivery_id: str) -> bool:
    """Whether the event of a delivery is still stored."""
    stored = select(delivery.c.id).where(delivery.c.id == delivery_id, delivery.c.body.is_not(None))
    return conn.execute(stored).first() is not None


def lock_received(conn: Connection, delivery_id: str) -> bool:
    """Holds a delivery until the transaction's end if it is still to be routed. (On SQLite the transaction is the
    lock.)"""
    still = select(delivery.c.id).where(delivery.c.id == delivery_id, delivery.c.state == "received")
    return conn.execute(still.with_for_update()).first() is not None


def finish(conn: Connection, delivery_id: str, *, state: str, code: str, reason: str) -> None:
    """Ends the routing of a delivery: ``state`` is routed or ignored, and nothing is due any more."""
    conn.execute(
        update(delivery).where(delivery.c.id == delivery_id).values(state=state, code=code, reason=reason, due_at=None)
    )


def known(conn: Connection, ids: Sequence[str]) -> set[str]:
    """Those of ``ids`` (a few hundred at most) that arrived."""
    return set(conn.execute(select(delivery.c.id).where(delivery.c.id.in_(ids))).scalars())


def first_at(conn: Connection) -> float | None:
    """When the oldest delivery that is still known came."""
    found: float | None = conn.execute(select(func.min(delivery.c.received_at))).scalar_one()
    return found


def drop_bodies(conn: Connection, before: float, limit: int) -> int:
    """Forgets the bodies of what was routed before then; a dispatch that is still to be sent needs its own, or, where
    it runs another again, that of the first that was told of the event."""
    needed = (
        select(dispatch.c.id, dispatch.c.rerun_of, dispatch.c.delivery_id)
        .where(dispatch.c.state.in_(("sending", "selecting")))
        .cte("needed", recursive=True)
    )
    told = dispatch.alias("told")
    needed = needed.union(select(told.c.id, told.c.rerun_of, told.c.delivery_id).where(told.c.id == needed.c.rerun_of))
    kept = exists().where(needed.c.delivery_id == delivery.c.id)
    old = (
        select(delivery.c.id)
        .where(delivery.c.received_at < before, delivery.c.body.is_not(None), delivery.c.state != "received", ~kept)
        .limit(limit)
    )
    # in two statements: SQLite does not count what an update with such a list changes
    ids = list(conn.execute(old).scalars())
    return conn.execute(update(delivery).where(delivery.c.id.in_(ids)).values(body=None)).rowcount if ids else 0


def drop_ignored(conn: Connection, before: float, limit: int) -> int:
    """Forgets deliveries that came before then and started nothing."""
    used = exists().where(dispatch.c.delivery_id == delivery.c.id)
    rerun_asked = exists().where(rerun.c.delivery_id == delivery.c.id)
    old = (
        select(delivery.c.id)
        .where(delivery.c.received_at < before, delivery.c.state.in_(("ignored", "noted")), ~used, ~rerun_asked)
        .limit(limit)
    )
    return conn.execute(delete(delivery).where(delivery.c.id.in_(old))).rowcount


def note(conn: Connection, delivery_id: str, *, code: str, reason: str) -> None:
    """Says why a delivery is not routed yet; it stays due."""
    conn.execute(
        update(delivery)
        .where(delivery.c.id == delivery_id, delivery.c.state == "received")
        .values(code=code, reason=reason)
    )
