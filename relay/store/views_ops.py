"""What /queues, /outbox and /audit read, for whoever looks after the relay. See relay.store.views_parts for the rules
that hold here as well."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, func, select

from relay.store import audit, views
from relay.store.dispatches import OPEN_STATES
from relay.store.outbox_ops import STATES
from relay.store.schema import delivery, dispatch, outbox, rerun, shard
from relay.store.views_parts import CLOSED, EFFECT, plain_all

PER_PAGE = 50
OLDEST = 40


def queues(conn: Connection, now: float) -> dict[str, Any]:
    """Everything that waits: shards by queue, the oldest of them, shards with workers, deliveries to be routed, runs by
    state, effects by kind, runs that were asked for again."""
    depth = views.queue_depth(conn, now)
    return {
        "now": now,
        **depth,
        "workers": views.workers(conn, now),
        "waiting": _shards(conn, "queued"),
        "working": _shards(conn, "leased"),
        "runs": _counts(conn, dispatch.c.state, dispatch.c.state.in_(OPEN_STATES)),
        "deliveries": _counts(conn, delivery.c.state, delivery.c.state == "received"),
        "effects": views.outbox_state(conn, now, limit=0)["kinds"],
        "reruns": conn.execute(select(func.count()).select_from(rerun).where(rerun.c.due_at.is_not(None))).scalar_one(),
    }


def effects(conn: Connection, *, state: str, kind: str | None, target: str | None, page: int) -> dict[str, Any]:
    """A page of effects in one state, the newest first, without their payloads; ``more``: whether there is a page
    after it. ``states``: how many there are in each; of sent ones, which are nearly all, None."""
    query = select(*EFFECT, outbox.c.stream).where(outbox.c.state == state)
    if kind:
        query = query.where(outbox.c.kind == kind)
    if target:
        query = query.where(outbox.c.target == target)
    rows = conn.execute(query.order_by(outbox.c.id.desc()).limit(PER_PAGE + 1).offset((page - 1) * PER_PAGE)).all()
    few = tuple(name for name in STATES if name != "sent")
    counted = _counts(conn, outbox.c.state, outbox.c.state.in_(few))
    return {
        "rows": plain_all(rows[:PER_PAGE]),
        "more": len(rows) > PER_PAGE,
        "states": {name: counted.get(name, 0) if name in few else None for name in STATES},
    }


def actions(conn: Connection, *, before: int | None, action: str | None, actor: str | None) -> dict[str, Any]:
    """A page of what was done, the newest first; ``next``: where the page after it begins, None: there is none."""
    rows = audit.listed(conn, limit=PER_PAGE + 1, before=before, action=action, actor=actor)
    shown = plain_all(rows[:PER_PAGE])
    return {"rows": shown, "next": shown[-1]["id"] if len(rows) > PER_PAGE else None}


def _shards(conn: Connection, state: str) -> list[dict[str, Any]]:
    """The oldest shards in a state, of runs that are not over."""
    columns = (shard.c.id, shard.c.dispatch_id, shard.c.side, shard.c.index, shard.c.queue, shard.c.worker,
               shard.c.est_seconds, shard.c.attempts, shard.c.created_at, shard.c.started_at, shard.c.lease_until,
               dispatch.c.downstream, dispatch.c.pr_number)  # fmt: skip
    rows = conn.execute(
        select(*columns)
        .join(dispatch, dispatch.c.id == shard.c.dispatch_id)
        .where(shard.c.state == state, dispatch.c.state.not_in(CLOSED))
        .order_by(shard.c.created_at)
        .limit(OLDEST)
    )
    return plain_all(rows)


def _counts(conn: Connection, column: Any, where: Any) -> dict[str, int]:
    return {row[0]: row[1] for row in conn.execute(select(column, func.count()).where(where).group_by(column))}
