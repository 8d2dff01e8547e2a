"""From a state to the effects it asks for, as outbox rows in the caller's transaction."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import Connection, Row

from relay.domain.check_output import inert
from relay.domain.effects import DispatchFacts, JobFacts, check_run, hud_row, wanted
from relay.domain.lifecycle import newest
from relay.settings import Settings
from relay.store import jobs, outbox


def request_dispatches(conn: Connection, dispatches: Mapping[str, str], now: float) -> int:
    """Asks for the repository_dispatch of each dispatch (id: downstream; executor ``github``) that the caller has just
    stored. The event's body is read from its delivery when it is sent. Returns how many were not asked for before."""
    return outbox.enqueue_all(
        conn,
        [
            outbox.request(f"dispatch:{one}", "dispatch", f"dispatch:{one}", repo, {}, now=now, dispatch_id=one)
            for one, repo in dispatches.items()
        ],
    )


def report_job(
    conn: Connection,
    settings: Settings,
    dispatch: Row[Any],
    job: Row[Any],
    now: float,
    *,
    title: str | None = None,
    summary: str | None = None,
    text: str | None = None,
    details_url: str | None = None,
    callback: Mapping[str, Any] | None = None,
) -> None:
    """Asks for what the job's state means outside, by the dispatch's level: the dashboard's row, the check run.

    Call it after the rows were changed, with the rows as they are now. ``title`` (plain), ``summary`` and ``text``
    (Markdown, foreign parts escaped) go into the check run; ``details_url`` defaults to our page about the run;
    ``callback`` is the validated ``workflow`` of a downstream's own report. Calling it again for the same state and
    version changes nothing.
    """
    facts = DispatchFacts(**{field.name: getattr(dispatch, field.name) for field in fields(DispatchFacts)})
    about = JobFacts(**{field.name: getattr(job, field.name) for field in fields(JobFacts)})
    version = f"{job.id}:{job.version}:{job.status}"
    for kind in wanted(facts, job.status):
        if kind == "hud" and settings.hud_url:
            outbox.enqueue(
                conn,
                key=f"hud:{version}",
                kind="hud",
                stream=f"hud:{job.id}",
                target=(urlsplit(settings.hud_url).hostname or settings.hud_url)[:255],
                payload=hud_row(facts, about, callback),
                now=now,
                dispatch_id=dispatch.id,
                job_id=job.id,
            )
        elif kind == "check_run" and (job.check_run_id is not None or _shown(conn, job)):
            page = details_url or f"{settings.url}/run/{dispatch.id}"
            outbox.enqueue(
                conn,
                key=f"check:{version}",
                kind="check_run",
                stream=_check_stream(job),
                target=dispatch.upstream,
                payload=check_run(
                    facts, about, details_url=page, title=title, summary=summary or _summary(facts, about), text=text
                ),
                now=now,
                dispatch_id=dispatch.id,
                job_id=job.id,
            )


def _shown(conn: Connection, job: Row[Any]) -> bool:
    """Whether the job is the newest attempt of its kind. A check run of an older one, made now, would hide the newer
    one's on the pull request."""
    same = [v for v in jobs.views(conn, job.dispatch_id) if (v.workflow, v.name) == (job.workflow, job.name)]
    return bool(newest(same)[0].id == job.id)


def _check_stream(job: Row[Any]) -> str:
    # one stream for all attempts: GitHub shows the check run that was made last, so they are made in order
    name = hashlib.sha256(f"{job.workflow}\0{job.name}".encode()).hexdigest()[:16]
    return f"check:{job.dispatch_id}:{name}"


def _summary(dispatch: DispatchFacts, job: JobFacts) -> str:
    where = f"{inert(dispatch.downstream)}: {inert(job.workflow)} / {inert(job.name)}"
    if job.status != "completed" or not job.results:
        return where
    counts = ", ".join(f"{number} {name}" for name, number in job.results.items() if number is not None)
    return f"{where}\n\nTests: {counts}."
