"""The one job of a run on our own workers, as the dashboard and the check run see it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from relay.services import oncalling, proving, reporting
from relay.settings import Settings
from relay.store.ids import new_id
from relay.store.schema import dispatch, job

JOB = "selected-tests"


def workflow(device: str | None) -> str:
    return f"{device or 'device'}-emulator"


def run_url(settings: Settings, dispatch_id: str) -> str:
    return f"{settings.url}/run/{dispatch_id}"


def ensure(conn: Connection, settings: Settings, run: Row[Any], now: float) -> Row[Any]:
    """The run's job, made (as queued, and announced) when it is not there yet."""
    row = _find(conn, run.id)
    if row is not None:
        return row
    conn.execute(
        insert(job).values(
            id=new_id(),
            dispatch_id=run.id,
            workflow=workflow(run.device),
            name=JOB,
            run_id=run.id,
            attempt=1,
            status="queued",
            url=run_url(settings, run.id),
            queued_at=run.created_at,
            version=1,
        )
    )
    row = _find(conn, run.id)
    assert row is not None
    reporting.report_job(conn, settings, run, row, now, details_url=run_url(settings, run.id))
    return row


def started(conn: Connection, settings: Settings, dispatch_id: str, now: float) -> None:
    """Marks the run and its job as begun, once."""
    run = conn.execute(select(dispatch).where(dispatch.c.id == dispatch_id)).one()
    if run.started_at is not None:
        return
    conn.execute(update(dispatch).where(dispatch.c.id == dispatch_id).values(started_at=now))
    row = ensure(conn, settings, run, now)
    if row.status != "queued":
        return
    conn.execute(
        update(job).where(job.c.id == row.id).values(status="in_progress", started_at=now, version=row.version + 1)
    )
    _report(conn, settings, dispatch_id, now)


def completed(
    conn: Connection,
    settings: Settings,
    dispatch_id: str,
    now: float,
    *,
    conclusion: str,
    results: dict[str, int],
    title: str,
    summary: str,
    text: str | None,
) -> None:
    """Marks the run's job as completed and reports it. ``title`` is the check run's line."""
    run = conn.execute(select(dispatch).where(dispatch.c.id == dispatch_id)).one()
    row = ensure(conn, settings, run, now)
    if row.status == "completed":
        return
    conn.execute(
        update(job)
        .where(job.c.id == row.id)
        .values(
            status="completed",
            conclusion=conclusion,
            started_at=row.started_at if row.started_at is not None else now,
            completed_at=now,
            results=results,
            version=row.version + 1,
        )
    )
    _report(conn, settings, dispatch_id, now, title=title, summary=summary, text=text)
    proving.record(conn, dispatch_id)
    run = conn.execute(select(dispatch).where(dispatch.c.id == dispatch_id)).one()
    oncalling.ended(conn, settings, run, conclusion=conclusion, code=run.code, summary=run.summary or title, now=now)


def _report(
    conn: Connection,
    settings: Settings,
    dispatch_id: str,
    now: float,
    *,
    title: str | None = None,
    summary: str | None = None,
    text: str | None = None,
) -> None:
    run = conn.execute(select(dispatch).where(dispatch.c.id == dispatch_id)).one()
    row = _find(conn, dispatch_id)
    assert row is not None
    page = run_url(settings, dispatch_id)
    reporting.report_job(conn, settings, run, row, now, title=title, summary=summary, text=text, details_url=page)


def _find(conn: Connection, dispatch_id: str) -> Row[Any] | None:
    return conn.execute(select(job).where(job.c.dispatch_id == dispatch_id, job.c.name == JOB)).one_or_none()
