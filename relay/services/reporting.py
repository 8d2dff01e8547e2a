"""From a state to the effects it asks for, as outbox rows in the caller's transaction."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import Connection, Row

from relay.domain.check_output import inert, render
from relay.domain.conclusions import TABLE, gate_sentence
from relay.domain.depends import sentence
from relay.domain.effects import DispatchFacts, JobFacts, check_run, hud_row, wanted
from relay.domain.lifecycle import newest, overall
from relay.services import oncalling, proving, responding
from relay.settings import Settings
from relay.store import jobs, outbox
from selector.verify.serialise import from_map


def request_dispatches(
    conn: Connection, settings: Settings, dispatches: Mapping[str, str], now: float, *, at: float | None = None
) -> int:
    """Asks for the repository_dispatch of each dispatch (id: downstream; executor ``github``) that the caller has just
    stored, and for the checks that wait for the first reports; they leave at ``at`` (default: now). The event's body
    is read from its delivery when it is sent. Returns how many were not asked for before."""
    at = now if at is None else at
    responding.ask(conn, settings.url, dispatches, now, at)
    return outbox.enqueue_all(
        conn,
        [
            outbox.request(f"dispatch:{one}", "dispatch", f"dispatch:{one}", repo, {}, now=now, at=at, dispatch_id=one)
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
    """Asks for what the job's state means outside, by the dispatch's level: the dashboard's row, the check run, and
    what follows when it was the last of a downstream's own CI.

    Call it after the rows were changed, with the rows as they are now. ``title`` (plain), ``summary`` and ``text``
    (Markdown, foreign parts escaped) go into the check run; ``details_url`` defaults to our page about the run;
    ``callback`` is the validated ``workflow`` of a downstream's own report. Calling it again for the same state and
    version changes nothing.
    """
    facts, about = _facts(dispatch, job)
    for kind in wanted(facts, job.status):
        if kind == "hud" and settings.hud_url:
            outbox.enqueue(
                conn,
                key=f"hud:{job.id}:{job.version}:{job.status}",
                kind="hud",
                stream=f"hud:{job.id}",
                target=(urlsplit(settings.hud_url).hostname or settings.hud_url)[:255],
                payload=hud_row(facts, about, callback),
                now=now,
                dispatch_id=dispatch.id,
                job_id=job.id,
            )
        elif kind == "check_run" and (job.check_run_id is not None or _shown(conn, job)):
            _ask_for_check(conn, settings, dispatch, job, now, details_url, title, summary, text)
    if dispatch.executor == "github":
        _follow(conn, settings, dispatch, job, now)


def _follow(conn: Connection, settings: Settings, dispatch: Row[Any], job: Row[Any], now: float) -> None:
    """What a report of a downstream's own CI means beside the job itself."""
    if dispatch.state == "superseded":
        if job.status != "completed":
            cancel_run(conn, settings, dispatch, job, now)
        return
    if not job.presumed:
        responding.settle(conn, settings.url, dispatch, "passed", f"{inert(dispatch.downstream)} has reported.", now)
    whole = overall(jobs.views(conn, dispatch.id))
    if whole.state == "completed":
        proving.record(conn, dispatch.id)
        code = "job-timed-out" if job.presumed and whole.conclusion == "timed_out" else whole.code
        oncalling.ended(
            conn, settings, dispatch, conclusion=whole.conclusion, code=code, summary=whole.summary, now=now
        )


def superseded(conn: Connection, settings: Settings, dispatch: Row[Any], reason: str, now: float) -> None:
    """A dispatch to a downstream's own CI that nobody waits for any more: its waiting check ends, and so do the runs
    that it started and that were heard of. Those heard of later end then."""
    responding.settle(conn, settings.url, dispatch, "cancelled", inert(reason, 2000), now)
    for view in jobs.views(conn, dispatch.id):
        if view.status != "completed":
            job = jobs.get(conn, view.id)
            assert job is not None
            cancel_run(conn, settings, dispatch, job, now)


def cancel_run(conn: Connection, settings: Settings, dispatch: Row[Any], job: Row[Any], now: float) -> None:
    """Asks for the end of a workflow run; once a run."""
    if not runs_on_github(settings, job):
        return
    outbox.enqueue(
        conn,
        key=f"cancel:{dispatch.id}:{job.run_id}",
        kind="cancel",
        stream=f"cancel:{dispatch.id}:{job.run_id}",
        target=dispatch.downstream,
        payload={"run_id": job.run_id},
        now=now,
        dispatch_id=dispatch.id,
    )


def runs_on_github(settings: Settings, job: Row[Any]) -> bool:
    """Whether it is a workflow run of the GitHub that the relay talks to: only there can the App do anything."""
    here = f"{settings.github_url}/".casefold()
    return bool(job.run_id.isascii() and job.run_id.isdigit() and (job.url or "").casefold().startswith(here))


def report_check(conn: Connection, settings: Settings, dispatch: Row[Any], job: Row[Any], now: float) -> None:
    """Asks for the check run of a job as it is now, because it is to be seen from now on."""
    title = summary = text = None
    if job.status == "completed" and dispatch.verdict:
        output = render(from_map(dispatch.verdict), f"{settings.url}/run/{dispatch.id}")
        title, summary, text = output.title, output.summary, output.text
    page = job.url if dispatch.executor == "github" else None
    _ask_for_check(conn, settings, dispatch, job, now, page, title, summary, text)


def hide_check(conn: Connection, settings: Settings, dispatch: Row[Any], job: Row[Any], now: float) -> None:
    """Asks for the end of a check run that is no longer to be seen. GitHub cannot take one away."""
    facts, about = _facts(dispatch, job)
    body = check_run(
        facts,
        about,
        details_url=f"{settings.url}/run/{dispatch.id}",
        title="No longer shown",
        summary=f"{TABLE['hidden'].words.capitalize()}. Set the label again to see it.",
        text=None,
    )
    body |= {"status": "completed", "conclusion": TABLE["hidden"].conclusion}
    _enqueue_check(conn, dispatch, job, body, now)


def _ask_for_check(
    conn: Connection,
    settings: Settings,
    dispatch: Row[Any],
    job: Row[Any],
    now: float,
    details_url: str | None,
    title: str | None,
    summary: str | None,
    text: str | None,
) -> None:
    facts, about = _facts(dispatch, job)
    page = details_url or f"{settings.url}/run/{dispatch.id}"
    means = gate_sentence(dispatch.level, job.status, job.conclusion)
    with_what = inert(sentence(dispatch.pin), 500)
    told = "\n\n".join(part for part in (summary or _summary(facts, about), with_what, means) if part)
    body = check_run(facts, about, details_url=page, title=title, summary=told, text=text)
    _enqueue_check(conn, dispatch, job, body, now)


def _enqueue_check(conn: Connection, dispatch: Row[Any], job: Row[Any], body: dict[str, Any], now: float) -> None:
    shown = f":{dispatch.shows}" if dispatch.shows else ""
    outbox.enqueue(
        conn,
        key=f"check:{job.id}:{job.version}:{job.status}{shown}",
        kind="check_run",
        stream=_check_stream(job),
        target=dispatch.upstream,
        payload=body,
        now=now,
        dispatch_id=dispatch.id,
        job_id=job.id,
    )


def _facts(dispatch: Row[Any], job: Row[Any]) -> tuple[DispatchFacts, JobFacts]:
    facts = DispatchFacts(**{field.name: getattr(dispatch, field.name) for field in fields(DispatchFacts)})
    return facts, JobFacts(**{field.name: getattr(job, field.name) for field in fields(JobFacts)})


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
