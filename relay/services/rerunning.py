"""Runs results again that somebody asked for at one of our check runs: a downstream's own CI by its workflow run, our
workers by the very plan that was run before."""

from __future__ import annotations

from typing import Any

import structlog
from sqlalchemy import Connection, Engine, Row, select, update

from relay.services import reporting, run_job
from relay.settings import Settings
from relay.store import dispatches, outbox, plans, shards
from relay.store.db import reading
from relay.store.schema import dispatch, job, rerun
from relay.store.views_parts import CLOSED
from selector.model import Side

log = structlog.get_logger(__name__)
AT_ONCE = 100
COPIED = (
    "downstream", "downstream_key", "level", "device", "oncalls", "executor", "event", "action", "upstream",
    "pr_number", "pr_title", "author", "author_trusted", "base_sha", "head_sha", "base_ref", "head_repo", "labels",
    "compare_sha",
)  # fmt: skip
"""What a rerun has in common with the run before: the event, and who is asked at which level."""


def step(engine: Engine, settings: Settings, now: float) -> dict[str, Any]:
    """Does what was asked for; -> how much was asked on, and how much refused."""
    with reading(engine) as conn:
        due = select(rerun.c.id).where(rerun.c.state == "waiting", rerun.c.due_at <= now).order_by(rerun.c.id)
        ids = conn.execute(due.limit(AT_ONCE)).scalars().all()
    asked = refused = 0
    for one in ids:
        with engine.begin() as conn:
            row = conn.execute(select(rerun).where(rerun.c.id == one).with_for_update()).one()
            if row.state != "waiting":
                continue
            problem = _run_again(conn, settings, row, now)
            state = "asked" if problem is None else "refused"
            conn.execute(update(rerun).where(rerun.c.id == one).values(state=state, due_at=None))
        asked += problem is None
        refused += problem is not None
        log.info("rerun", id=one, dispatch=row.dispatch_id, by=row.requested_by, state=state, reason=problem)
    return {"asked": asked, "refused": refused}


def _run_again(conn: Connection, settings: Settings, row: Row[Any], now: float) -> str | None:
    """None: it is on its way; else why not."""
    run = dispatches.get_made(conn, row.dispatch_id)
    if _has_successor(conn, run):
        return "a newer run of the same commit is there"
    if run.executor == "workers":
        return _on_workers(conn, settings, run, row.delivery_id, now)
    return _on_github(conn, run, row, now)


def _on_github(conn: Connection, run: Row[Any], row: Row[Any], now: float) -> str | None:
    newest = select(job).where(job.c.dispatch_id == run.id, job.c.run_id == row.run_id)
    known = conn.execute(newest.order_by(job.c.attempt.desc()).limit(1)).one_or_none()
    if known is None or not reporting.runs_on_github(known):
        return "the run is of a CI that this relay cannot start"
    outbox.enqueue(
        conn,
        key=f"rerun:{row.id}",
        kind="rerun",
        stream=f"rerun:{run.id}:{row.run_id}",
        target=run.downstream,
        payload={"run_id": row.run_id, "scope": row.scope, "attempt": known.attempt},
        now=now,
        dispatch_id=run.id,
    )
    return None


def _on_workers(conn: Connection, settings: Settings, run: Row[Any], delivery_id: str, now: float) -> str | None:
    """The same plan once more: the same tests with the same sheet, configs and runtime, whatever they are by now. A run
    that came to no plan begins with selecting."""
    if run.state not in CLOSED:
        return f"the run is {run.state}"
    planned = plans.exists(conn, run.id)
    state = "running" if planned else "selecting"
    copied = {name: getattr(run, name) for name in COPIED}
    (fresh,) = dispatches.add(
        conn,
        [
            {
                **copied,
                "delivery_id": delivery_id,
                "state": state,
                "due_at": None if planned else now,
                "selected_at": now if planned else None,
                "rerun_of": run.id,
            }
        ],
        now=now,
    )
    if fresh is None:
        return "asked for already"
    if planned:
        plans.copy(conn, run.id, fresh, now)
        _copy_shards(conn, run.id, fresh, now)
    run_job.ensure(conn, settings, dispatches.get_made(conn, fresh), now)
    return None


def _copy_shards(conn: Connection, old: str, new: str, now: float) -> None:
    for row in shards.of_dispatch(conn, old):
        if row.side == Side.HEAD.value:
            specs = [{**row.spec, "est_seconds": row.est_seconds}]
            shards.add(conn, dispatch_id=new, side=row.side, queue=row.queue, specs=specs, now=now)


def _has_successor(conn: Connection, run: Row[Any]) -> bool:
    later = select(dispatch.c.id).where(
        dispatch.c.upstream == run.upstream,
        dispatch.c.head_sha == run.head_sha,
        dispatch.c.downstream_key == run.downstream_key,
        dispatch.c.id > run.id,
    )
    return conn.execute(later.limit(1)).first() is not None
