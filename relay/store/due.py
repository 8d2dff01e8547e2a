"""Due work. A row whose ``due_at`` has come is handed to the broker and becomes due again a while later: what the
broker loses comes back, and what arrives twice finds that there is nothing to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Table, select, update

from relay.store import outbox, schema

MAX_BACKOFF = 6
"""Hand-overs are spread up to 2**6 times the requeue time: a shard that waits an hour for a worker must not fill the
broker with copies of itself. A flushed broker is noticed at once by other means (relay.pump)."""


@dataclass(frozen=True, slots=True)
class Work:
    """One id for one task."""

    task: str
    id: str
    queue: str


def take(conn: Connection, now: float, requeue_s: float, limit: int = 200) -> list[Work]:
    """Marks what is due as handed over and returns it. Send it after the commit."""
    work: list[Work] = []
    for table, task_of in (
        (schema.delivery, lambda row: ("relay.route", "route")),
        (schema.dispatch, _dispatch_task),
        (schema.shard, lambda row: ("relay.run_shard", row.queue)),
        (schema.outbox, lambda row: ("relay.send", "outbox")),
    ):
        for row in _due(conn, table, now, limit):
            task, queue = task_of(row)
            wait = requeue_s * 2 ** min(row.attempts, MAX_BACKOFF)
            values: dict[str, Any] = {"due_at": now + wait}
            if table is not schema.outbox:  # there, attempts are sends
                values["attempts"] = row.attempts + 1
            if table is schema.dispatch:
                values["claim"] = None  # it ran out, or the row would not be due: whoever held it may no longer write
            conn.execute(update(table).where(table.c.id == row.id).values(**values))
            work.append(Work(task, str(row.id), queue))
    return work


def make_all_due(conn: Connection, now: float) -> None:
    """After the broker lost its memory: everything that waits for it is due now. Running selections keep their claim,
    and sends keep their backoff."""
    for table in (schema.delivery, schema.shard):
        conn.execute(update(table).where(table.c.due_at.is_not(None)).values(due_at=now, attempts=0))
    outbox.make_due(conn, now)
    conn.execute(
        update(schema.dispatch)
        .where(schema.dispatch.c.due_at.is_not(None), schema.dispatch.c.claim.is_(None))
        .values(due_at=now, attempts=0)
    )


def _dispatch_task(row: Any) -> tuple[str, str]:
    return ("relay.select", "select") if row.state == "selecting" else ("relay.conclude", "route")


def _due(conn: Connection, table: Table, now: float, limit: int) -> list[Any]:
    if table is schema.outbox:
        return list(outbox.due(conn, now, limit))
    columns = [table.c[name] for name in ("id", "attempts", "state", "queue") if name in table.c]
    query = select(*columns).where(table.c.due_at <= now).order_by(table.c.due_at).limit(limit)
    if conn.dialect.name == "postgresql":
        query = query.with_for_update(skip_locked=True)
    return list(conn.execute(query))
