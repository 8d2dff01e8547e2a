"""Deliveries that GitHub made and that never arrived here, and how often it was asked to make them again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, delete, select, update

from relay.store.schema import delivery, redelivery
from relay.store.upsert import insert_once


def miss(conn: Connection, delivery_id: str, hook_delivery_id: int, event: str) -> bool:
    """Remembers that a delivery never arrived; a newer attempt of GitHub's takes the place of an older. True: news."""
    row = {
        "delivery_id": delivery_id,
        "hook_delivery_id": hook_delivery_id,
        "event": event,
        "attempts": 0,
        "asked_at": 0.0,
        "state": "missing",
    }
    if insert_once(conn, redelivery, row):
        return True
    conn.execute(
        update(redelivery)
        .where(redelivery.c.delivery_id == delivery_id, redelivery.c.hook_delivery_id < hook_delivery_id)
        .values(hook_delivery_id=hook_delivery_id)
    )
    return False


def settle(conn: Connection) -> int:
    """Takes note of those that have arrived since; -> how many."""
    here = select(delivery.c.id)
    arrived = (
        update(redelivery)
        .where(redelivery.c.state == "missing", redelivery.c.delivery_id.in_(here))
        .values(state="arrived", reason=None)
    )
    return conn.execute(arrived).rowcount


def due(conn: Connection, asked_before: Sequence[float], limit: int) -> list[Row[Any]]:
    """Those to ask for now, oldest first: asked for n times, the last time before ``asked_before[n]``."""
    missing = redelivery.c.state == "missing"
    found: list[Row[Any]] = []
    for attempts, before in enumerate(asked_before):
        query = (
            select(redelivery)
            .where(missing, redelivery.c.attempts == attempts, redelivery.c.asked_at <= before)
            .order_by(redelivery.c.hook_delivery_id)
            .limit(limit - len(found))
        )
        found += conn.execute(query).all()
    return found


def waiting(conn: Connection, attempts: int) -> bool:
    """Whether one is missing that was asked for less often."""
    query = select(redelivery.c.delivery_id).where(redelivery.c.state == "missing", redelivery.c.attempts < attempts)
    return conn.execute(query.limit(1)).first() is not None


def asked(conn: Connection, delivery_id: str, now: float) -> None:
    conn.execute(
        update(redelivery)
        .where(redelivery.c.delivery_id == delivery_id)
        .values(attempts=redelivery.c.attempts + 1, asked_at=now)
    )


def give_up(conn: Connection, delivery_id: str, reason: str) -> None:
    conn.execute(
        update(redelivery)
        .where(redelivery.c.delivery_id == delivery_id, redelivery.c.state == "missing")
        .values(state="gave-up", reason=reason)
    )


def exhausted(conn: Connection, attempts: int) -> list[str]:
    """Those that were asked for so often and still are not here."""
    query = select(redelivery.c.delivery_id).where(redelivery.c.state == "missing", redelivery.c.attempts >= attempts)
    return list(conn.execute(query).scalars())


def purge(conn: Connection, before: float) -> int:
    """Forgets those that were asked for last before then, however it ended."""
    done = redelivery.c.state != "missing"
    return conn.execute(delete(redelivery).where(done, redelivery.c.asked_at < before)).rowcount
