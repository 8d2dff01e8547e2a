"""What the database says of the near future, after this machine's clock was stepped.

Times are stored as seconds since the epoch, so a step makes what waits a few seconds wait an hour, or ends every lease
at once. What waits keeps the distance that it had; nothing is moved further than its kind can ever be.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Column, ColumnElement, Connection, Table, and_, case, or_, update

from relay.domain.retry import LONGEST_WAIT_S
from relay.store.outbox import CLAIM_S
from relay.store.schema import chore, circuit, delivery, dispatch, outbox, redelivery, rerun, shard, upgrade, worker

WAITS: Sequence[tuple[Table, tuple[str, ...]]] = (
    (delivery, ("due_at",)),
    (dispatch, ("due_at",)),
    (shard, ("due_at",)),
    (upgrade, ("due_at", "claim_until")),
    (rerun, ("due_at",)),
    (chore, ("due_at",)),
    (circuit, ("until",)),
    (outbox, ("due_at", "not_before")),
    (redelivery, ("asked_at",)),
    (worker, ("seen_at",)),
)
"""Columns that are never far ahead, whatever was asked for; the last two are of the past."""


def set_back(conn: Connection, now: float, by: float, lease_s: float, beyond: float = 0.0) -> int:
    """The clock was set back ``by`` seconds and shows ``now``: what is more than ``beyond`` seconds ahead comes as much
    nearer. Returns how many rows."""
    moved = 0
    for table, names in WAITS:
        for name in names:
            column = table.c[name]
            ahead = update(table).where(column > now + beyond)
            moved += conn.execute(ahead.values({name: column - by})).rowcount
    held = and_(shard.c.state == "leased", shard.c.lease_until > now + lease_s + beyond)
    moved += conn.execute(update(shard).where(held).values(lease_until=now + lease_s)).rowcount
    return moved


def set_forward(conn: Connection, now: float, by: float, lease_s: float) -> int:
    """The clock was set forward ``by`` seconds and shows ``now``: who was alive is, who was at work still is, and a
    wait that somebody asked for is no shorter. What else waits is due, which does no harm. Returns how many rows."""
    moved = 0

    def move(table: Table, names: tuple[str, ...], limit: float, which: ColumnElement[bool]) -> None:
        nonlocal moved
        values = {name: _at_most(table.c[name], by, limit) for name in names}
        moved += conn.execute(update(table).where(which).values(values)).rowcount

    move(shard, ("lease_until",), now + lease_s, shard.c.state == "leased")
    move(worker, ("seen_at",), now, worker.c.seen_at < now)
    move(dispatch, ("due_at",), now + CLAIM_S, and_(dispatch.c.claim.is_not(None), dispatch.c.due_at.is_not(None)))
    move(upgrade, ("claim_until",), now + CLAIM_S, upgrade.c.claim.is_not(None))
    sending = and_(outbox.c.state == "due", outbox.c.attempts > 0, outbox.c.last_error.is_(None))
    move(outbox, ("due_at", "not_before"), now + CLAIM_S, sending)
    asked = and_(outbox.c.state == "due", or_(*(outbox.c.last_error.contains(s) for s in (", asked for ", "waits: "))))
    move(outbox, ("due_at", "not_before"), now + LONGEST_WAIT_S, asked)
    move(circuit, ("until",), now + LONGEST_WAIT_S, circuit.c.code == "rate-limited")
    return moved


def _at_most(column: Column[float], by: float, limit: float) -> ColumnElement[float]:
    return case((column + by < limit, column + by), else_=limit)
