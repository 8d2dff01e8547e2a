"""Runs results again that somebody asked for at one of our check runs: a downstream's own CI by its workflow run, our
workers by the very plan that was run before. At the check that waits for a first report the downstream is told again.
What is not done is said at the check."""

from __future__ import annotations

from typing import Any

import structlog
from sqlalchemy import ColumnElement, Connection, Engine, Row, func, select, update

from relay.services import reporting, rerun_notes, run_job
from relay.settings import Settings
from relay.store import deliveries, dispatches, outbox, plans, reruns, shards
from relay.store.db import reading
from relay.store.schema import dispatch, job, rerun
from relay.store.schema import outbox as table
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
            reruns.settle(conn, one, problem)
            if problem is not None:
                rerun_notes.refused(conn, one, problem, now)
        asked += problem is None
        refused += problem is not None
        log.info("rerun", id=one, dispatch=row.dispatch_id, scope=row.scope, by=row.requested_by, refused=problem)
    return {"asked": asked, "refused": refused}


def _run_again(conn: Connection, settings: Settings, row: Row[Any], now: float) -> str | None:
    """None: it is on its way; else why not."""
    run = dispatches.get_made(conn, row.dispatch_id)
    if _has_successor(conn, run):
        return "a newer run of the same commit is there"
    if run.state == "superseded":
        return f"nobody waits for it any more: {run.summary}"
    if row.scope == "dispatch":
        return _tell_again(conn, settings, run, row.delivery_id, now)
    if run.executor == "workers":
        return _on_workers(conn, settings, run, row.delivery_id, now)
    return _on_github(conn, settings, run, row, now)


def _on_github(conn: Connection, settings: Settings, run: Row[Any], row: Row[Any], now: float) -> str | None:
    newest = select(job).where(job.c.dispatch_id == run.id, job.c.run_id == row.run_id)
    known = conn.execute(newest.order_by(job.c.attempt.desc()).limit(1)).one_or_none()
    if known is None or not reporting.runs_on_github(settings, known):
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


def _tell_again(conn: Connection, settings: Settings, run: Row[Any], delivery_id: str, now: float) -> str | None:
    """The same event to the downstream once more, as a dispatch of its own: what reports on it is told apart from what
    still comes of the first."""
    if run.state not in CLOSED:
        return _OPEN[run.state]
    if _has_newer_commit(conn, run):
        return "the pull request has moved on, and the downstream would end its run of the newer commit"
    first = run.rerun_of or run.id
    told = dispatches.get(conn, first)
    if told is None or not deliveries.has_body(conn, told.delivery_id):
        return f"the event is older than {settings.keep_bodies_days:g} days and no longer stored"
    fresh = _add(conn, run, delivery_id, now, state="sending", rerun_of=first)
    if fresh is None:
        return "asked for already"
    stale = table.c.key == f"dispatch:{run.id}"
    unsent = update(table).where(stale, table.c.state.in_(("due", "parked")))
    conn.execute(unsent.values(state="dropped", due_at=None, last_error=f"told again as {fresh}"))
    reporting.request_dispatches(conn, settings, {fresh: run.downstream}, now)
    return None


_OPEN = {
    "sending": "the downstream is still to be told",
    "sent": "the downstream was told and may still report",
    "running": "what it runs is not over",
}


def _on_workers(conn: Connection, settings: Settings, run: Row[Any], delivery_id: str, now: float) -> str | None:
    """The same plan once more: the same tests with the same sheet, configs and runtime, whatever they are by now. A run
    that came to no plan begins with selecting."""
    if run.state not in CLOSED:
        return f"the run is {run.state}"
    planned = plans.exists(conn, run.id)
    state = "running" if planned else "selecting"
    due_at, selected_at = (None, now) if planned else (now, None)
    fresh = _add(conn, run, delivery_id, now, state=state, due_at=due_at, selected_at=selected_at, rerun_of=run.id)
    if fresh is None:
        return "asked for already"
    if planned:
        plans.copy(conn, run.id, fresh, now)
        _copy_shards(conn, run.id, fresh, now)
    run_job.ensure(conn, settings, dispatches.get_made(conn, fresh), now)
    return None


def _add(conn: Connection, run: Row[Any], delivery_id: str, now: float, **more: Any) -> str | None:
    """A new dispatch like ``run``, tested with the same commit of the downstream where one was pinned; -> its id. None:
    this request has made it already."""
    copied = {name: getattr(run, name) for name in COPIED}
    if (run.pin or {}).get("sha"):
        copied["pin"] = run.pin
    (fresh,) = dispatches.add(conn, [{**copied, "delivery_id": delivery_id, **more}], now=now)
    return fresh


def _copy_shards(conn: Connection, old: str, new: str, now: float) -> None:
    for row in shards.of_dispatch(conn, old):
        if row.side == Side.HEAD.value:
            specs = [{**row.spec, "est_seconds": row.est_seconds}]
            shards.add(conn, dispatch_id=new, side=row.side, queue=row.queue, specs=specs, now=now)


_RUNS = func.coalesce(dispatch.c.action, "") != "closed"
"""Of a pull request that was closed the downstream is told, and runs nothing."""


def _has_successor(conn: Connection, run: Row[Any]) -> bool:
    return _has_later(conn, run, dispatch.c.head_sha == run.head_sha)


def _has_newer_commit(conn: Connection, run: Row[Any]) -> bool:
    return run.pr_number is not None and _has_later(conn, run, dispatch.c.pr_number == run.pr_number)


def _has_later(conn: Connection, run: Row[Any], of_same: ColumnElement[bool]) -> bool:
    """Whether the downstream was told later of what ``of_same`` says, with something to run."""
    later = select(dispatch.c.id).where(
        dispatch.c.upstream == run.upstream,
        dispatch.c.downstream_key == run.downstream_key,
        dispatch.c.id > run.id,
        of_same,
        _RUNS,
    )
    return conn.execute(later.limit(1)).first() is not None
