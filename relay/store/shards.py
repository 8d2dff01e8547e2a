"""Shards and their leases. A lease is the shard's current fence and token; whoever holds an older one may not write."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, func, insert, select, update

from relay.errors import Conflict, LeaseLost, NotFound
from relay.store.ids import new_id
from relay.store.schema import dispatch, shard

MAX_LEASES = 5
"""A shard whose worker was lost this often is given up: it takes its workers down."""


def add(
    conn: Connection, *, dispatch_id: str, side: str, queue: str, specs: Sequence[dict[str, Any]], now: float
) -> list[str]:
    """Inserts the shards of one side of a dispatch, due at once. ``specs`` carry ``est_seconds`` besides the wire's
    keys. Returns their ids in order."""
    rows = []
    for index, spec in enumerate(specs):
        wire = {k: v for k, v in spec.items() if k != "est_seconds"}
        rows.append(
            {
                "id": new_id(),
                "dispatch_id": dispatch_id,
                "side": side,
                "index": index,
                "queue": queue,
                "spec": wire,
                "est_seconds": spec["est_seconds"],
                "state": "queued",
                "due_at": now,
                "created_at": now,
            }
        )
    if rows:
        conn.execute(insert(shard), rows)
    return [row["id"] for row in rows]


def lease(conn: Connection, shard_id: str, *, worker: str, now: float, lease_s: float) -> tuple[Row[Any], str]:
    """Takes the lease: the shard's row after it, and the token. NotFound; Conflict when it is done, held by a worker
    whose heartbeats still come, or its run no longer wants it."""
    row = conn.execute(
        select(shard, dispatch.c.state.label("run_state"), dispatch.c.author_trusted)
        .join(dispatch, dispatch.c.id == shard.c.dispatch_id)
        .where(shard.c.id == shard_id)
    ).one_or_none()
    if row is None:
        raise NotFound(f"there is no shard {shard_id}", "ids come from the broker's message")
    if row.state in ("done", "failed"):
        raise Conflict(f"shard {shard_id} is {row.state}", "nothing to do")
    if row.run_state in ("completed", "superseded", "failed"):
        raise Conflict(f"the run of shard {shard_id} is {row.run_state}", "nothing to do")
    if row.state == "leased" and row.lease_until > now:
        raise Conflict(f"shard {shard_id} is leased by {row.worker}", "it is offered again if that worker is lost")
    token = secrets.token_urlsafe(32)
    taken = conn.execute(
        update(shard)
        .where(shard.c.id == shard_id, shard.c.fence == row.fence, shard.c.state == row.state)
        .values(
            state="leased",
            fence=row.fence + 1,
            lease_token=_digest(token),
            worker=worker,
            lease_until=now + lease_s,
            started_at=func.coalesce(shard.c.started_at, now),
            due_at=None,
        )
    )
    if taken.rowcount != 1:
        raise Conflict(f"shard {shard_id} was leased at the same instant", "nothing to do")
    return get(conn, shard_id), token


def held(conn: Connection, shard_id: str, token: str) -> Row[Any]:
    """The shard's row if ``token`` is its current lease. A lease that ran out but was not given away yet still holds:
    the fence, not the clock, decides who may write. Raises LeaseLost."""
    row = conn.execute(select(shard).where(shard.c.id == shard_id)).one_or_none()
    if (
        row is None
        or row.state != "leased"
        or not row.lease_token
        or not hmac.compare_digest(row.lease_token, _digest(token))
    ):
        raise LeaseLost(f"this lease of shard {shard_id} has ended", "stop the run; another worker has the shard")
    return row


def extend(conn: Connection, shard_id: str, *, now: float, lease_s: float) -> None:
    conn.execute(update(shard).where(shard.c.id == shard_id).values(lease_until=now + lease_s))


def finish(
    conn: Connection, shard_id: str, *, state: str, report: dict[str, Any], error: str | None, now: float
) -> None:
    """Ends a shard as ``done`` or ``failed``; its token is good for nothing afterwards."""
    conn.execute(
        update(shard)
        .where(shard.c.id == shard_id)
        .values(
            state=state,
            report=report,
            error=error,
            finished_at=now,
            lease_token=None,
            lease_until=None,
            due_at=None,
        )
    )


def reap(conn: Connection, now: float) -> tuple[list[str], list[str]]:
    """Ends leases whose heartbeats stopped. Returns the ids that are queued again and those that are given up."""
    lost = conn.execute(
        select(shard.c.id, shard.c.fence, shard.c.worker).where(shard.c.state == "leased", shard.c.lease_until < now)
    ).all()
    again, given_up = [], []
    for row in lost:
        if row.fence >= MAX_LEASES:
            finish(
                conn,
                row.id,
                state="failed",
                report={},
                error=f"{row.fence} workers were lost while they ran it; the last was {row.worker}",
                now=now,
            )
            given_up.append(row.id)
        else:
            conn.execute(
                update(shard)
                .where(shard.c.id == row.id)
                .values(state="queued", lease_token=None, lease_until=None, due_at=now, attempts=0)
            )
            again.append(row.id)
    return again, given_up


def cancel(conn: Connection, dispatch_id: str, *, reason: str, now: float) -> None:
    """Ends every open shard of a run that nobody wants any more."""
    conn.execute(
        update(shard)
        .where(shard.c.dispatch_id == dispatch_id, shard.c.state.in_(("queued", "leased")))
        .values(state="failed", error=reason, finished_at=now, lease_token=None, lease_until=None, due_at=None)
    )


def get(conn: Connection, shard_id: str) -> Row[Any]:
    row = conn.execute(select(shard).where(shard.c.id == shard_id)).one_or_none()
    if row is None:
        raise NotFound(f"there is no shard {shard_id}")
    return row


def of_dispatch(conn: Connection, dispatch_id: str) -> Sequence[Row[Any]]:
    return conn.execute(
        select(shard).where(shard.c.dispatch_id == dispatch_id).order_by(shard.c.side.desc(), shard.c.index)
    ).all()


def open_count(conn: Connection, dispatch_id: str) -> int:
    """Shards of the run that are neither done nor failed."""
    return conn.execute(
        select(func.count())
        .select_from(shard)
        .where(shard.c.dispatch_id == dispatch_id, shard.c.state.in_(("queued", "leased")))
    ).scalar_one()


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
