"""Dispatches: one per delivery and downstream; what a downstream does for one event."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, and_, case, or_, select, text, update

from relay.domain.policy import PriorRun
from relay.store.ids import new_id
from relay.store.schema import delivery, dispatch, outbox
from relay.store.upsert import insert_new

OPEN_STATES = ("sending", "sent", "selecting", "running", "confirming", "verifying")
"""States of a run that can still end in another way."""


def add(conn: Connection, rows: Sequence[Mapping[str, Any]], *, now: float) -> list[str | None]:
    """Inserts dispatches (columns by name, without id and created_at, the same ones in each) and returns their ids in
    the rows' order. None: this delivery already has one for this downstream."""
    made = [{"attempts": 0, **row, "id": new_id(now), "created_at": now} for row in rows]
    inserted = insert_new(conn, dispatch, made)
    return [row["id"] if row["id"] in inserted else None for row in made]


def get(conn: Connection, dispatch_id: str) -> Row[Any] | None:
    return conn.execute(select(dispatch).where(dispatch.c.id == dispatch_id)).one_or_none()


def first_of(conn: Connection, run: Row[Any]) -> Row[Any] | None:
    """The dispatch that ``run`` repeats in the end, itself where it repeats none: its delivery is the event. None when
    one on the way is no longer stored."""
    found: Row[Any] | None = run
    while found is not None and found.rerun_of:
        found = get(conn, found.rerun_of)
    return found


def deliveries_of(conn: Connection, dispatch_ids: Iterable[str]) -> dict[str, str]:
    """Dispatch -> the delivery that it is for."""
    query = select(dispatch.c.id, dispatch.c.delivery_id).where(dispatch.c.id.in_(list(dispatch_ids)))
    return {row.id: row.delivery_id for row in conn.execute(query)}


def get_made(conn: Connection, dispatch_id: str) -> Row[Any]:
    """One that the caller has just stored."""
    return conn.execute(select(dispatch).where(dispatch.c.id == dispatch_id)).one()


def any_since(conn: Connection, upstream: str, number: int, since: float) -> bool:
    """Whether something of this pull request was dispatched after ``since``."""
    recent = select(dispatch.c.id).where(
        dispatch.c.upstream == upstream, dispatch.c.pr_number == number, dispatch.c.created_at > since
    )
    return conn.execute(recent.limit(1)).first() is not None


def lock_pull_request(conn: Connection, upstream: str, number: int) -> None:
    """Makes routings of one pull request wait for each other until the transaction's end. SQLite has one writer."""
    if conn.dialect.name == "postgresql":
        digest = hashlib.sha256(f"{upstream.casefold()}#{number}".encode()).digest()
        key = int.from_bytes(digest[:8], "big", signed=True)
        conn.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": key})


def prior_runs(conn: Connection, upstream: str, number: int, came: Row[Any]) -> list[PriorRun]:
    """A pull request's dispatches that matter to the delivery ``came``: the open ones, and those of deliveries that are
    newer. Its own are not among them.

    Newer is what GitHub dates later, in whatever order they came: one that was asked for again, or overtaken on its
    way, must not end the run of a later commit. Of the same second, and where one has no date, the order of arrival
    counts."""
    newer = delivery.c.received_at > came.received_at
    if came.told_at is not None:
        dated = and_(delivery.c.told_at.is_not(None), delivery.c.told_at != came.told_at)
        newer = case((dated, delivery.c.told_at > came.told_at), else_=newer)
    rows = conn.execute(
        select(dispatch, newer.label("newer"))
        .join(delivery, delivery.c.id == dispatch.c.delivery_id)
        .where(dispatch.c.upstream == upstream, dispatch.c.pr_number == number, dispatch.c.delivery_id != came.id)
        .where(or_(dispatch.c.state.in_(OPEN_STATES), newer))
        .order_by(dispatch.c.id)
    )
    return [
        PriorRun(
            row.id,
            row.downstream_key,
            row.executor,
            row.head_sha,
            row.state in OPEN_STATES,
            bool(row.newer),
        )
        for row in rows
    ]


def supersede(conn: Connection, dispatch_id: str, *, code: str, reason: str, now: float) -> bool:
    """Ends an open run that nobody wants any more. False: it had ended by itself."""
    ended = conn.execute(
        update(dispatch)
        .where(dispatch.c.id == dispatch_id, dispatch.c.state.in_(OPEN_STATES))
        .values(
            state="superseded",
            claim=None,
            due_at=None,
            closed_at=now,
            conclusion="cancelled",
            code=code,
            summary=reason,
        )
    )
    return ended.rowcount == 1


def set_check_run(conn: Connection, dispatch_id: str, check_run_id: str) -> None:
    """Remembers our check run that waits for the dispatch's first report, once."""
    mine = update(dispatch).where(dispatch.c.id == dispatch_id, dispatch.c.check_run_id.is_(None))
    conn.execute(mine.values(check_run_id=check_run_id))


def drop_unsent(conn: Connection, dispatch_id: str, reason: str) -> bool:
    """Keeps a dispatch's POST from being sent, if it is not sent yet."""
    dropped = conn.execute(
        update(outbox)
        .where(outbox.c.key == f"dispatch:{dispatch_id}", outbox.c.state == "due")
        .values(state="dropped", due_at=None, last_error=reason)
    )
    return dropped.rowcount == 1
