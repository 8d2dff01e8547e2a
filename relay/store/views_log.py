"""What the page of a shard's log reads; see relay.store.views_parts for the rules that hold here as well."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, func, select

from relay.errors import NotFound
from relay.store import shard_logs
from relay.store.schema import dispatch, result, shard
from relay.store.views_parts import FAILING

FAILURES = 200
"""Failures of a shard that are listed beside its log."""


def message(conn: Connection, shard_id: str, fence: int, begin: int) -> str | None:
    """What is told of the variant whose output begins at byte ``begin`` of a lease's log."""
    mine = (result.c.shard_id == shard_id, result.c.fence == fence, result.c.log_begin == begin)
    found: str | None = conn.execute(select(result.c.message).where(*mine).limit(1)).scalar_one_or_none()
    return found


def of_shard(conn: Connection, run: str, shard_id: str, lease: int | None) -> dict[str, Any]:
    """A shard's log: its lease (``lease``, else the newest that left one), its size, and where its failures stand,
    in the order of the log. NotFound when the run has no such shard, or the shard no log."""
    row = conn.execute(
        select(
            shard.c.id, shard.c.side, shard.c.index, shard.c.state, shard.c.worker, dispatch.c.downstream,
            dispatch.c.pr_number, dispatch.c.upstream, dispatch.c.event,
        )
        .join(dispatch, dispatch.c.id == shard.c.dispatch_id)
        .where(shard.c.id == shard_id, shard.c.dispatch_id == run)
    ).one_or_none()  # fmt: skip
    if row is None:
        raise NotFound(f"run {run} has no shard {shard_id}", f"/run/{run} lists its shards")
    fence = lease if lease is not None else shard_logs.newest(conn, shard_id)
    size = shard_logs.end(conn, shard_id, fence) if fence is not None else 0
    if fence is None or not size:
        raise NotFound(
            "this shard left no log",
            f"nothing was printed, or it was too long ago to be kept; /run/{run} has the end of each failure's output",
        )
    mine = (result.c.shard_id == shard_id, result.c.fence == fence, result.c.log_begin.is_not(None))
    failures = conn.execute(
        select(result.c.test, result.c.variant, result.c.outcome, result.c.log_begin, result.c.log_end)
        .where(*mine, result.c.outcome.in_(FAILING))
        .order_by(result.c.log_begin)
        .limit(FAILURES)
    )
    return {
        "run": {name: getattr(row, name) for name in ("downstream", "pr_number", "upstream", "event")} | {"id": run},
        "shard": {name: getattr(row, name) for name in ("id", "side", "index", "state", "worker")},
        "lease": fence,
        "size": size,
        "variants": conn.execute(select(func.count()).select_from(result).where(*mine)).scalar_one(),
        "failures": [
            {
                "test": one.test,
                "variant": one.variant,
                "outcome": one.outcome,
                "begin": one.log_begin,
                "end": one.log_end,
            }
            for one in failures
        ],
    }
