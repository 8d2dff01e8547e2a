"""Shards and their leases. A lease is the shard's current fence and token; whoever holds an older one may not write."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, func, insert, select, update

from relay.errors import Conflict, LeaseLost, NotFound
from relay.store import setups
from relay.store.ids import new_id
from relay.store.schema import dispatch, shard

MAX_LEASES = 5
"""A shard whose worker was lost this often is given up: it takes its workers down."""
OVER = ("completed", "superseded", "failed")
"""States of a run whose shards nobody waits for."""


def add(
    conn: Connection,
    *,
    dispatch_id: str,
    side: str,
    queue: str,
    specs: Sequence[dict[str, Any]],
    now: float,
    apart_s: float = 0.0,
) -> list[str]:
    """Inserts the shards of one side of a dispatch, due at once, or ``apart_s`` seconds after each other: one that is
    not due yet waits for nobody, and counts as made when it is. ``specs`` carry ``est_seconds`` besides the wire's
    keys. Further ones follow those that the side has. Returns their ids in order."""
    rows = []
    there = select(func.count()).select_from(shard).where(shard.c.dispatch_id == dispatch_id, shard.c.side == side)
    folded = setups.fold(conn, specs, now)
    for place, (index, spec) in enumerate(enumerate(folded, conn.execute(there).scalar_one() if specs else 0)):
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
                "due_at": now + place * apart_s,
                "created_at": now + place * apart_s,
            }
        )
    if rows:
        conn.execute(insert(shard), rows)
    return [row["id"] for row in rows]


def lease(conn: Connection, shard_id: str, *, worker: str, now: float, lease_s: float) -> tuple[Row[Any], str]:
    """Takes the lease: the shard's row after it, and the token. NotFound; Conflict when it is done, held by a worker
    whose heartbeats still come, or its run no longer wants it."""
    run_state = lock_run(conn, shard_id)
    row = conn.execute(select(shard).where(shard.c.id == shard_id).with_for_update()).one()
    if row.state in ("done", "failed"):
        raise Conflict(f"shard {shard_id} is {row.state}", "nothing to do")
    if run_state in OVER:
        raise Conflict(f"the run of shard {shard_id} is {run_state}", "nothing to do")
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


def lock_run(conn: Connection, shard_id: str) -> str:
    """Locks the run of a shard until the transaction's end and returns its state. Whoever takes, ends or takes back a
    shard comes by here first: two that end a run's last two shards at once must see each other. NotFound."""
    of_shard = select(shard.c.dispatch_id).where(shard.c.id == shard_id)
    run_id = conn.execute(of_shard).scalar_one_or_none()
    if run_id is None:
        raise NotFound(f"there is no shard {shard_id}", "ids come from the broker's message")
    # not the strongest lock: inserting a result, which refers to the run, must not wait for it
    query = select(dispatch.c.state).where(dispatch.c.id == run_id).with_for_update(key_share=True)
    return str(conn.execute(query).scalar_one())


def held(conn: Connection, shard_id: str, token: str, *, write: bool = True) -> Row[Any]:
    """The shard's row if ``token`` is its current lease, locked for ``write`` so that the reaper cannot give it away
    meanwhile. A lease that ran out but was not given away yet still holds: the fence, not the clock, decides who may
    write. Raises LeaseLost."""
    query = select(shard).where(shard.c.id == shard_id)
    row = conn.execute(query.with_for_update() if write else query).one_or_none()
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


def lost(conn: Connection, now: float) -> list[str]:
    """The ids of shards whose workers' heartbeats stopped."""
    return list(conn.execute(select(shard.c.id).where(_lost(now)).order_by(shard.c.id)).scalars())


def take_back(conn: Connection, shard_id: str, now: float) -> str | None:
    """Ends the lease of a lost worker, which may have been heard of meanwhile (None). Returns the shard's state:
    ``queued`` again, or ``failed`` when it took too many workers down or its run is over."""
    run_state = lock_run(conn, shard_id)
    row = conn.execute(select(shard).where(shard.c.id == shard_id, _lost(now)).with_for_update()).one_or_none()
    if row is None:
        return None
    error = None
    if run_state in OVER:
        error = f"its worker {row.worker} was lost, and the run is {run_state}"
    elif row.fence - row.handed_back >= MAX_LEASES:
        error = f"{row.fence - row.handed_back} workers were lost while they ran it; the last was {row.worker}"
    if error is not None:
        finish(conn, shard_id, state="failed", report={}, error=error, now=now)
        return "failed"
    again = {"state": "queued", "lease_token": None, "lease_until": None, "due_at": now, "attempts": 0}
    conn.execute(update(shard).where(shard.c.id == shard_id).values(**again))
    return "queued"


def hand_back(conn: Connection, row: Row[Any], now: float) -> str:
    """Ends the lease of a worker that stops (``row`` from ``held``, the run locked). Returns the shard's state:
    ``queued`` again, or ``failed`` when its run is over. It is no loss of a worker, and not counted as one."""
    run_state = conn.execute(select(dispatch.c.state).where(dispatch.c.id == row.dispatch_id)).scalar_one()
    if run_state in OVER:
        finish(conn, row.id, state="failed", report={}, error=f"its worker stopped, the run is {run_state}", now=now)
        return "failed"
    again = {"state": "queued", "lease_token": None, "lease_until": None, "due_at": now, "attempts": 0}
    conn.execute(update(shard).where(shard.c.id == row.id).values(**again, handed_back=row.handed_back + 1))
    return "queued"


def _lost(now: float) -> ColumnElement[bool]:
    return and_(shard.c.state == "leased", shard.c.lease_until < now)


def cancel(conn: Connection, dispatch_id: str, *, reason: str, now: float) -> None:
    """Ends the shards of a run that nobody wants any more and nobody has begun."""
    conn.execute(
        update(shard)
        .where(shard.c.dispatch_id == dispatch_id, shard.c.state == "queued")
        .values(state="failed", error=reason, finished_at=now, due_at=None)
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
