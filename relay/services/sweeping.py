"""The sweeper: ends the waits whose deadline is over, once each, whoever does it; a later report takes its place.

Each wait is ended in a transaction of its own that looks again whether it is still one, so that any number of sweepers
and a report that comes at the same moment end up with one answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import structlog
from sqlalchemy import Connection, Engine, Row, exists, func, select, update

from relay.domain.allowlist import Allowlist
from relay.domain.check_output import inert
from relay.domain.deadlines import NO_WORKER_S, Limits, end_missed, limits, words
from relay.domain.lifecycle import Completion, JobReport, JobStatus, overall
from relay.errors import AllowlistError, SettingsError
from relay.services import allowlists, leasing, oncalling, proving, reporting, responding
from relay.settings import Settings
from relay.store import jobs, shards, workers
from relay.store.db import reading
from relay.store.schema import dispatch, job, outbox, shard, worker
from relay.store.views_parts import AnyRow

log = structlog.get_logger(__name__)
AT_ONCE = 500
"""Waits that one look ends at most; the next look goes on."""


def sweep(engine: Engine, settings: Settings, memory: dict[str, Any], now: float) -> dict[str, Any]:
    """One look; -> how much it ended now and since ever, for pages and metrics."""
    own = _deadlines(engine, settings, now)
    with reading(engine) as conn:
        silent = _silent(conn, own, now)
        endless = _endless(conn, own, now)
        stranded = _stranded(conn, now)
    ended = {
        "no-response": _each(engine, silent, lambda conn, one: _no_response(conn, settings, one, own, now)),
        "job-timed-out": _each(engine, endless, lambda conn, one: _time_out(conn, settings, one, own, now)),
        "no-worker": _each(engine, stranded, lambda conn, one: _no_worker(conn, one, now)),
    }
    total = memory.get("total", {})
    if any(ended.values()):
        log.info("deadlines", **{code.replace("-", "_"): number for code, number in ended.items()})
    return {"ended": ended, "total": {code: number + int(total.get(code, 0)) for code, number in ended.items()}}


def _each(engine: Engine, rows: Sequence[Any], end: Callable[[Connection, Any], bool]) -> int:
    done = 0
    for row in rows:
        with engine.begin() as conn:
            done += end(conn, row)
    return done


def _deadlines(engine: Engine, settings: Settings, now: float) -> Callable[[str], Limits]:
    """A downstream's limits as the allowlist has them now: who gives itself more time gives it to what runs, too."""
    listed: Allowlist | None = None
    try:
        listed = allowlists.current(engine, settings, now)
    except (AllowlistError, SettingsError) as exc:
        log.warning("deadlines without an allowlist: the relay's own hold", error=str(exc))

    def of(downstream: str) -> Limits:
        entry = listed.find(downstream) if listed is not None else None
        return limits(entry.deadlines if entry is not None else None)

    return of


# ---------------------------------------------------------------------------------------------------- told, never heard


def _silent(conn: Connection, own: Callable[[str], Limits], now: float) -> list[str]:
    """Dispatches that were sent, whose time for a first report is over."""
    names = select(dispatch.c.downstream).where(dispatch.c.state == "sent").distinct()
    found: list[str] = []
    for name in conn.execute(names).scalars().all():
        sent = _sent(name, now - own(name).start_s).limit(AT_ONCE)
        found += conn.execute(sent).scalars()
    return found[:AT_ONCE]


def _sent(downstream: str, before: float) -> Any:
    return (
        select(dispatch.c.id)
        .join(outbox, outbox.c.dispatch_id == dispatch.c.id)
        .where(dispatch.c.state == "sent", dispatch.c.downstream == downstream, outbox.c.kind == "dispatch")
        .where(func.coalesce(outbox.c.sent_at, dispatch.c.created_at) < before)
        .order_by(dispatch.c.id)
    )


def _no_response(
    conn: Connection, settings: Settings, dispatch_id: str, own: Callable[[str], Limits], now: float
) -> bool:
    run = conn.execute(select(dispatch).where(dispatch.c.id == dispatch_id).with_for_update()).one()
    waited = words(own(run.downstream).start_s)
    sentence = f"{run.downstream} was told and did not report within {waited}"
    silent = update(dispatch).where(
        dispatch.c.id == dispatch_id,
        dispatch.c.state == "sent",
        ~exists(select(job.c.id).where(job.c.dispatch_id == dispatch_id)),
    )
    ended = silent.values(
        state="failed", conclusion="timed_out", code="no-response", summary=sentence, error=sentence, closed_at=now
    )
    if conn.execute(ended).rowcount != 1:
        return False
    responding.settle(conn, settings.url, run, "no-response", inert(sentence), now)
    proving.record(conn, dispatch_id)
    oncalling.ended(conn, settings, run, conclusion="timed_out", code="no-response", summary=sentence, now=now)
    return True


# ------------------------------------------------------------------------------------------------ begun, never finished


def _endless(conn: Connection, own: Callable[[str], Limits], now: float) -> list[AnyRow]:
    """Jobs of downstreams' own CI that are open, and whose time is over."""
    rows = conn.execute(
        select(job.c.id, job.c.dispatch_id, job.c.status, job.c.queued_at, job.c.started_at, dispatch.c.downstream)
        .join(dispatch, dispatch.c.id == job.c.dispatch_id)
        .where(job.c.status.in_(("queued", "in_progress")), dispatch.c.executor == "github")
        .order_by(job.c.id)
    )
    late = (row for row in rows if end_missed(row.status, row.queued_at, row.started_at, own(row.downstream), now))
    return [row for row, _ in zip(late, range(AT_ONCE), strict=False)]


def _time_out(conn: Connection, settings: Settings, found: AnyRow, own: Callable[[str], Limits], now: float) -> bool:
    run = conn.execute(select(dispatch).where(dispatch.c.id == found.dispatch_id).with_for_update()).one()
    row = jobs.get(conn, found.id)
    if row is None or not end_missed(row.status, row.queued_at, row.started_at, own(run.downstream), now):
        return False
    key = jobs.JobKey(row.workflow, row.name, row.run_id, row.attempt)
    presumed = JobReport(JobStatus.COMPLETED, now, Completion("timed_out", now, presumed=True))
    ended, change = jobs.record(conn, run, key, presumed, url=None, check_run_id=None)
    if not change.publish:
        return False
    reporting.report_job(conn, settings, run, ended, now, details_url=row.url)
    _move(conn, run, now)
    return True


def _move(conn: Connection, run: Row[Any], now: float) -> None:
    """The dispatch as its jobs say it is now; a superseded one stays so."""
    if run.state == "superseded":
        return
    whole = overall(jobs.views(conn, run.id))
    over = whole.state == "completed"
    code = "job-timed-out" if over and whole.conclusion == "timed_out" else whole.code
    conn.execute(
        update(dispatch)
        .where(dispatch.c.id == run.id)
        .values(
            state=whole.state,
            conclusion=whole.conclusion,
            code=code,
            summary=whole.summary,
            closed_at=now if over else None,
        )
    )


# ------------------------------------------------------------------------------------------ planned, and no worker left


def _stranded(conn: Connection, now: float) -> list[str]:
    """Runs whose shards wait in queues that no worker serves any more: none is there, or each of them has taken nothing
    for as long."""
    seen = conn.execute(
        select(worker.c.queue, worker.c.info, worker.c.seen_at).where(worker.c.seen_at > now - NO_WORKER_S)
    )
    served = {row.queue for row in seen if workers.held_s(row.info, row.seen_at, now) < NO_WORKER_S}
    held = shard.alias("held")
    rows = conn.execute(
        select(dispatch.c.id)
        .join(shard, shard.c.dispatch_id == dispatch.c.id)
        .where(dispatch.c.state.in_(("running", "confirming")), shard.c.state == "queued")
        .where(~exists(select(held.c.id).where(held.c.dispatch_id == dispatch.c.id, held.c.state == "leased")))
        .where(shard.c.queue.not_in(served))
        .group_by(dispatch.c.id)
        .having(func.max(shard.c.created_at) < now - NO_WORKER_S)
        .limit(AT_ONCE)
    )
    return list(rows.scalars())


def _no_worker(conn: Connection, dispatch_id: str, now: float) -> bool:
    first = select(shard.c.id).where(shard.c.dispatch_id == dispatch_id).limit(1)
    state = shards.lock_run(conn, conn.execute(first).scalar_one())
    if state not in ("running", "confirming") or dispatch_id not in _stranded(conn, now):
        return False
    shards.cancel(conn, dispatch_id, reason=f"no worker was there for {words(NO_WORKER_S)}", now=now)
    leasing.verify_when_all_ended(conn, dispatch_id, now)
    return True
