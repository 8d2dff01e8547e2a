"""Due work. A row whose ``due_at`` has come is handed to the broker and becomes due again a while later: what the
broker loses comes back, and what arrives twice finds that there is nothing to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, select, update

from relay.queue.names import OUTBOX, ROUTE, SELECT
from relay.store import outbox, schema

MAX_BACKOFF = 6
"""Hand-overs are spread up to 2**6 times the requeue time: a shard that waits an hour for a worker must not fill the
broker with copies of itself. A flushed broker is noticed at once by other means (relay.pump)."""

SENT_TOGETHER = 16
"""Effects a sender is given at a time: they share its transactions. A slow one holds up at most so many."""


@dataclass(frozen=True, slots=True)
class Work:
    """Ids for one call of a task: several where the task does them together, otherwise one."""

    task: str
    ids: tuple[str, ...]
    queue: str


def queues(conn: Connection, now: float) -> list[str]:
    """The queues for which something may be due: a look that takes no lock."""
    found = []
    for source in _sources(conn, now):
        due = select(source.table.c.id).where(source.table.c.due_at <= now)
        if source.only is not None:
            due = due.where(source.only)
        if source.queue not in found and conn.execute(due.limit(1)).first() is not None:
            found.append(source.queue)
    return found


def take(conn: Connection, now: float, requeue_s: float, room: Mapping[str, int]) -> list[Work]:
    """Marks what is due as handed over and returns it. Send it after the commit.

    ``room`` says how many more calls each queue should get (none where it has no entry): what waits in the database is
    not lost and not doubled, so a queue holds little more than its workers need to stay busy.
    """
    work: list[Work] = []
    left = dict(room)
    for source in _sources(conn, now):
        free = left.get(source.queue, 0)
        rows = source.rows(conn, now, free * source.together) if free > 0 else []
        for attempts, alike in groupby(sorted(rows, key=lambda row: row.attempts), lambda row: row.attempts):
            values: dict[str, Any] = {"due_at": now + requeue_s * 2 ** min(attempts, MAX_BACKOFF)}
            if source.table is not schema.outbox:  # there, attempts are sends
                values["attempts"] = attempts + 1
            if source.table is schema.dispatch:
                values["claim"] = None  # it ran out, or the row would not be due: whoever held it may no longer write
            ids = [row.id for row in alike]
            conn.execute(update(source.table).where(source.table.c.id.in_(ids)).values(**values))
        calls = [tuple(str(row.id) for row in some) for some in batched(rows, source.together)]
        work += [Work(source.task, ids, source.queue) for ids in calls]
        left[source.queue] = free - len(calls)
    return work


def batched(rows: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    """Rows in their order, ``size`` at a time."""
    return (rows[at : at + size] for at in range(0, len(rows), size))


def make_all_due(conn: Connection, now: float) -> None:
    """After the broker lost its memory: everything that waits for it is due now. Running selections keep their claim,
    and sends keep their backoff."""
    for table in (schema.delivery, schema.shard, schema.upgrade):
        conn.execute(update(table).where(table.c.due_at.is_not(None)).values(due_at=now, attempts=0))
    outbox.make_due(conn, now)
    conn.execute(
        update(schema.dispatch)
        .where(schema.dispatch.c.due_at.is_not(None), schema.dispatch.c.claim.is_(None))
        .values(due_at=now, attempts=0)
    )


@dataclass(frozen=True, slots=True)
class _Source:
    """Rows of one table that go to one task in one queue."""

    table: Table
    task: str
    queue: str
    only: ColumnElement[bool] | None = None
    together: int = 1

    def rows(self, conn: Connection, now: float, limit: int) -> list[Any]:
        if self.table is schema.outbox:
            return list(outbox.due(conn, now, limit))
        table = self.table
        query = select(table.c.id, table.c.attempts).where(table.c.due_at <= now).order_by(table.c.due_at).limit(limit)
        if self.only is not None:
            query = query.where(self.only)
        if conn.dialect.name == "postgresql":
            query = query.with_for_update(skip_locked=True)
        return list(conn.execute(query))


def _sources(conn: Connection, now: float) -> list[_Source]:
    selecting = schema.dispatch.c.state == "selecting"
    waiting = select(schema.shard.c.queue).where(schema.shard.c.due_at <= now).distinct()
    return [  # what ends a run stands before what begins one
        _Source(schema.dispatch, "relay.conclude", ROUTE, ~selecting),
        _Source(schema.delivery, "relay.route", ROUTE),
        _Source(schema.dispatch, "relay.select", SELECT, selecting),
        _Source(schema.upgrade, "relay.upgrade", SELECT),
        *(
            _Source(schema.shard, "relay.run_shard", queue, schema.shard.c.queue == queue)
            for queue in conn.execute(waiting).scalars()
        ),
        _Source(schema.outbox, "relay.send", OUTBOX, together=SENT_TOGETHER),
    ]
