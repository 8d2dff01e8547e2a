"""What two weeks of a downstream's runs were like, and the level that is proposed for it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, select

from relay.domain.lifecycle import JobView, newest
from relay.domain.readiness import Sample, Standing
from relay.store.schema import dispatch, job, level_proposal
from relay.store.upsert import upsert
from relay.store.views_parts import AnyRow

EVENTS = ("pull_request", "push", "merge_group")
"""A nightly run tells of itself when it is over: it has no wait, and no answer is late."""
MAX_JOBS = 50_000


def samples(conn: Connection, downstream_key: str, since: float) -> list[Sample]:
    """The newest attempts of the downstream's jobs in dispatches made after ``since`` that were not superseded, and
    the dispatches that nobody answered. Of a commit that was run again, or told again, the last run that ended."""
    last = _run_again(conn, downstream_key, since)
    rows = conn.execute(
        select(
            job.c.id,
            job.c.dispatch_id,
            job.c.workflow,
            job.c.name,
            job.c.run_id,
            job.c.attempt,
            job.c.status,
            job.c.conclusion,
            job.c.queued_at,
            job.c.started_at,
            job.c.completed_at,
            job.c.start_known,
            dispatch.c.created_at,
            dispatch.c.closed_at,
            dispatch.c.head_sha,
        )
        .join(dispatch, dispatch.c.id == job.c.dispatch_id)
        .where(dispatch.c.downstream_key == downstream_key, dispatch.c.created_at >= since)
        .where(dispatch.c.state != "superseded", dispatch.c.event.in_(EVENTS), job.c.status == "completed")
        .order_by(dispatch.c.id, job.c.id)
        .limit(MAX_JOBS)
    ).all()
    of_dispatch: dict[str, list[AnyRow]] = {}
    for row in rows:
        if row.dispatch_id >= last.get(row.head_sha, ""):
            of_dispatch.setdefault(row.dispatch_id, []).append(row)
    found = []
    for id, jobs in of_dispatch.items():
        by_id = {row.id: row for row in jobs}
        for view in newest(
            JobView(r.id, r.workflow, r.name, r.run_id, r.attempt, r.status, r.conclusion) for r in jobs
        ):
            found.append(_sample(id, by_id[view.id]))
    silent = select(dispatch.c.id, dispatch.c.head_sha).where(
        dispatch.c.downstream_key == downstream_key,
        dispatch.c.created_at >= since,
        dispatch.c.code == "no-response",
        dispatch.c.state == "failed",
    )
    unanswered = [row for row in conn.execute(silent) if row.id >= last.get(row.head_sha, "")]
    return found + [Sample(row.id, "timed_out") for row in unanswered]


def _run_again(conn: Connection, downstream_key: str, since: float) -> dict[str, str]:
    """Commit -> the last of its runs that repeats another one and has ended."""
    query = select(dispatch.c.head_sha, dispatch.c.id).where(
        dispatch.c.downstream_key == downstream_key,
        dispatch.c.created_at >= since,
        dispatch.c.rerun_of.is_not(None),
        dispatch.c.state.in_(("completed", "failed")),
    )
    return {row.head_sha: row.id for row in conn.execute(query.order_by(dispatch.c.id))}


def _sample(dispatch_id: str, row: AnyRow) -> Sample:
    known = row.start_known and row.started_at is not None
    queue = row.started_at - row.queued_at if known and row.queued_at is not None else None
    run = row.completed_at - row.started_at if known and row.completed_at is not None else None
    whole = row.closed_at - row.created_at if row.closed_at is not None else None
    return Sample(dispatch_id, row.conclusion, queue, run, whole)


def standing(conn: Connection, downstream_key: str) -> Standing | None:
    row = get(conn, downstream_key)
    if row is None:
        return None
    return Standing(row.level, row.proposed, row.reason, row.below_since, row.above_since)


def get(conn: Connection, downstream_key: str) -> Row[Any] | None:
    query = select(level_proposal).where(level_proposal.c.downstream_key == downstream_key)
    return conn.execute(query).one_or_none()


def put(
    conn: Connection, downstream_key: str, downstream: str, value: Standing, measured: dict[str, Any], now: float
) -> None:
    told = {
        "downstream": downstream,
        "level": value.level,
        "proposed": value.proposed,
        "reason": value.reason,
        "below_since": value.below_since,
        "above_since": value.above_since,
        "measured": measured,
        "updated_at": now,
    }
    upsert(conn, level_proposal, {"downstream_key": downstream_key}, told, newer="updated_at")
