"""Says at our own check runs why they are not run again, although somebody asked for it there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, select

from relay.domain.check_output import inert
from relay.domain.effects import OUTPUT_LIMIT
from relay.domain.lifecycle import newest
from relay.services import responding
from relay.store import jobs, outbox
from relay.store.schema import outbox as table
from relay.store.schema import rerun

MARK = "\n\n<!-- run again -->\n"
"""Begins what is said here; a later note takes its place."""
SENTENCE_MAX = 600


def refused(conn: Connection, rerun_id: str, reason: str, now: float) -> int:
    """Appends ``reason`` (plain text) to each check run that the request ``rerun_id`` is about, which stays what it
    was; -> how many."""
    row = conn.execute(select(rerun).where(rerun.c.id == rerun_id)).one_or_none()
    if row is None:
        return 0
    who = f" (asked for by {inert(row.requested_by)})" if row.requested_by else ""
    said = f"**Not run again**{who}: {inert(reason, SENTENCE_MAX)}."
    told = 0
    for shown in _shown(conn, row):
        last = _last(conn, shown)
        if last is None:
            continue
        output = dict(last.payload["output"])
        before = str(output["summary"]).partition(MARK)[0]
        output["summary"] = before[: OUTPUT_LIMIT - len(MARK) - len(said)] + MARK + said
        told += outbox.enqueue(
            conn,
            key=f"again:{rerun_id}:{last.job_id or last.dispatch_id}",
            kind="check_run",
            stream=last.stream,
            target=last.target,
            payload={**last.payload, "output": output},
            now=now,
            dispatch_id=last.dispatch_id,
            job_id=last.job_id,
        )
    return told


def _shown(conn: Connection, row: Row[Any]) -> Iterator[ColumnElement[bool]]:
    """Which outbox rows are of the check runs that a request is about, a check run each: the one that it names, else
    those of all jobs of the run."""
    if row.scope == "dispatch":
        yield table.c.stream == responding.stream_of(row.dispatch_id)
        return
    views = jobs.views(conn, row.dispatch_id)
    for view in newest(views) if row.check_run_id is None else views:
        job = jobs.get(conn, view.id)
        assert job is not None
        if job.run_id == row.run_id and job.check_run_id is not None and row.check_run_id in (None, job.check_run_id):
            yield table.c.job_id == job.id


def _last(conn: Connection, shown: ColumnElement[bool]) -> Row[Any] | None:
    """What was asked for last: the check run is, or will be, as this says."""
    asked = select(table).where(table.c.kind == "check_run", table.c.state != "dropped", shown)
    return conn.execute(asked.order_by(table.c.id.desc()).limit(1)).one_or_none()
