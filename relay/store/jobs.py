"""Jobs: one row per (dispatch, workflow, job, run id, attempt), moved by the lifecycle alone."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, Row, select, update

from relay.domain.lifecycle import Completion, Counts, JobReport, JobState, JobView, Transition, advance
from relay.store.ids import new_id
from relay.store.schema import job, outbox
from relay.store.upsert import insert_once


@dataclass(frozen=True, slots=True)
class JobKey:
    """What makes a job one job within its dispatch."""

    workflow: str
    name: str
    run_id: str
    attempt: int


def record(
    conn: Connection,
    dispatch: Row[Any],
    key: JobKey,
    report: JobReport,
    *,
    url: str | None,
    check_run_id: str | None,
    triage: dict[str, Any] | None = None,
) -> tuple[Row[Any], Transition]:
    """Applies ``report`` to the job, made where it is new, in the caller's transaction; -> (its row now, what changed).

    The row is locked in between, so that concurrent reports are applied one after the other. ``url`` and
    ``check_run_id`` are kept from the first report that has them, ``triage`` from the last one.
    """
    identity = {
        "dispatch_id": dispatch.id,
        "workflow": key.workflow,
        "name": key.name,
        "run_id": key.run_id,
        "attempt": key.attempt,
    }
    insert_once(
        conn,
        job,
        {
            **identity,
            "id": new_id(report.at),
            "status": "queued",
            "queued_at": _dispatched_at(conn, dispatch),
            "start_known": False,
            "version": 0,
        },
    )
    same = [job.c[name] == value for name, value in identity.items()]
    row = conn.execute(select(job).where(*same).with_for_update()).one()
    change = advance(_state(row), report)
    values: dict[str, Any] = {
        **_columns(change.state),
        "url": row.url or url,
        "reported_check_run_id": row.reported_check_run_id or check_run_id,
        "version": row.version + 1,
    }
    if triage is not None:
        values["triage"] = triage
    conn.execute(update(job).where(job.c.id == row.id).values(**values))
    return conn.execute(select(job).where(job.c.id == row.id)).one(), change


def views(conn: Connection, dispatch_id: str) -> list[JobView]:
    """All jobs of a dispatch, every run and attempt."""
    rows = conn.execute(select(job).where(job.c.dispatch_id == dispatch_id).order_by(job.c.id))
    return [JobView(r.id, r.workflow, r.name, r.run_id, r.attempt, r.status, r.conclusion) for r in rows]


def any_of(conn: Connection, dispatch_id: str) -> bool:
    """Whether a dispatch has jobs: then it arrived, whatever became of the answer to it."""
    return conn.execute(select(job.c.id).where(job.c.dispatch_id == dispatch_id).limit(1)).first() is not None


def get(conn: Connection, job_id: str) -> Row[Any] | None:
    return conn.execute(select(job).where(job.c.id == job_id)).one_or_none()


def set_source(conn: Connection, job_id: str, source: dict[str, str]) -> None:
    """Remembers where a job's report comes from: the downstream's commit and workflow, by its verified token."""
    conn.execute(update(job).where(job.c.id == job_id).values(source=source))


def set_check_run(conn: Connection, job_id: str, check_run_id: str) -> None:
    """Remembers our check run of the job, once."""
    conn.execute(update(job).where(job.c.id == job_id, job.c.check_run_id.is_(None)).values(check_run_id=check_run_id))


def check_runs(conn: Connection, dispatch_id: str) -> dict[str, str]:
    """The check runs that we know to belong to jobs of a dispatch: check run's id -> job's id."""
    mine = (job.c.dispatch_id == dispatch_id, job.c.check_run_id.is_not(None))
    return {row.check_run_id: row.id for row in conn.execute(select(job.c.check_run_id, job.c.id).where(*mine))}


def _dispatched_at(conn: Connection, dispatch: Row[Any]) -> float:
    """When the downstream got the event: its queue time must not contain our own delays."""
    query = select(outbox.c.sent_at).where(outbox.c.dispatch_id == dispatch.id, outbox.c.kind == "dispatch")
    sent_at: float | None = conn.execute(query.limit(1)).scalar_one_or_none()
    return sent_at if sent_at is not None else dispatch.created_at


def _state(row: Row[Any]) -> JobState | None:
    if row.version == 0:
        return None
    completion = None
    if row.status == "completed":
        counts = Counts(**row.results) if row.results is not None else None
        completion = Completion(row.conclusion, row.completed_at, counts, row.artifact_url, row.presumed)
    return JobState(row.started_at, completion)


def _columns(state: JobState) -> dict[str, Any]:
    end = state.completion
    return {
        "status": state.status.value,
        "conclusion": state.conclusion,
        "started_at": state.started_at,
        "completed_at": end.at if end else None,
        "start_known": state.start_known,
        "results": asdict(end.counts) if end and end.counts else None,
        "artifact_url": end.artifact_url if end else None,
        "presumed": end.presumed if end else False,
    }
