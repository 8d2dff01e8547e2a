"""A verified callback: bound to its dispatch, applied to its job, and answered, in one transaction."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog
from sqlalchemy import Connection, Engine, Row, select, update

from relay.domain import callback as body
from relay.domain.allowlist import Allowlist, Entry
from relay.domain.facts import RepositoryFact
from relay.domain.lifecycle import overall
from relay.domain.provenance import source_of
from relay.errors import (
    AllowlistError,
    Conflict,
    DispatchUnknown,
    RepositoryUnknown,
    SettingsError,
    TokenReplayed,
    Unavailable,
)
from relay.github.oidc import Identity
from relay.github.reads import Reader
from relay.services import allowlists, commits, self_reports
from relay.services.reporting import report_job
from relay.settings import Settings
from relay.steps import step
from relay.store import jobs, pull_requests, repositories, tokens
from relay.store.schema import dispatch

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Desk:
    """What receiving reports needs: where they go, who reads GitHub, and who says whether ``name`` may make it read."""

    engine: Engine
    settings: Settings
    reader: Reader
    asking: Callable[[str], None]


def receive(desk: Desk, identity: Identity, raw: bytes, now: float) -> dict[str, Any]:
    """Applies the report ``raw`` of the verified ``identity`` and returns the answer, which is a promise: what it says
    is stored. Raises BadRequest, Forbidden, RepositoryUnknown, DispatchUnknown, CommitUnknown, TokenReplayed, Conflict,
    RateLimited, Unavailable."""
    engine, settings = desk.engine, desk.settings
    report = body.parse(raw)
    body.bind(report, identity.provider, identity.claims)
    listed = _listed(engine, settings, now)
    entry = listed.of(identity.repository, identity.repository_id) if listed is not None else None
    if listed is not None and entry is None:
        # a 403 is for good: perhaps it was renamed a moment ago
        listed = allowlists.current(engine, settings, now, names_of_now=True)
        entry = listed.of(identity.repository, identity.repository_id)
    if entry is not None:
        body.permit(entry, identity.provider, identity.claims)
    about = report.self_report
    if about is not None and entry is not None and entry.level != "L1":
        self_reports.permit(settings, entry, about)
        commits.check(engine, settings, desk.reader, about.sha, now, functools.partial(desk.asking, entry.key))
    digest = hashlib.sha256(raw).hexdigest()
    with engine.begin() as conn:
        used = tokens.use(conn, identity.token_id, digest, identity.expires_at)
        if used is not None:
            if used.body_digest != digest:
                raise TokenReplayed("the token was used before, with another body", "ask for a new token per report")
            return dict(used.answer)
        if listed is not None and entry is None:
            # of a repository that was taken off the list, what it still runs is no longer wanted either
            raise RepositoryUnknown(
                f"{identity.repository} is on no allowlist of this relay", "ask upstream to add the repository"
            )
        answer = _answer(conn, settings, identity, report, entry, now)
        if entry is not None:
            _remember(conn, identity, entry)
        tokens.answer(conn, identity.token_id, answer)
    return answer


def _answer(
    conn: Connection, settings: Settings, identity: Identity, report: body.Callback, entry: Entry | None, now: float
) -> dict[str, Any]:
    about = report.self_report
    run = None if about is not None else _find(conn, report.delivery_id, identity, entry)
    if (run.level if run is not None else entry.level if entry is not None else None) == "L1":
        reason = f"{identity.repository} is at level L1: its results are not shown upstream"
        return {"ok": True, "status": "ignored", "recorded": False, "code": "level-1", "reason": reason}
    if about is not None and entry is not None:
        run = self_reports.run_of(conn, settings, entry, about, now)
    elif run is None and entry is None:
        raise Unavailable("there is no usable allowlist: nobody can say who may report", "report again later")
    if run is None:
        raise DispatchUnknown(
            f"delivery {report.delivery_id} was never dispatched to {identity.repository}",
            "send back the delivery_id of the client_payload that started the run",
            path="delivery_id",
        )
    return _apply(conn, settings, identity, report, run, now)


def _apply(
    conn: Connection, settings: Settings, identity: Identity, report: body.Callback, run: Row[Any], now: float
) -> dict[str, Any]:
    if run.executor != "github":
        raise Conflict(
            f"{run.downstream} is tested by this relay's own workers: nobody else reports on it",
            "set `executor: github` for it in the allowlist, or stop reporting",
        )
    flow = report.workflow
    key = jobs.JobKey(flow.name, report.job_name, flow.run_id, flow.run_attempt)
    claim = identity.provider.check_run_id
    claimed_id = identity.claims.get(claim) if claim is not None else None
    job, change = jobs.record(
        conn,
        run,
        key,
        report.report(now),
        url=body.run_url(report, identity.repository, identity.provider, identity.claims),
        check_run_id=flow.check_run_id or (str(claimed_id)[:64] if claimed_id else None),
        triage=report.triage,
    )
    jobs.set_source(conn, job.id, source_of(identity.claims))
    if change.publish:
        report_job(conn, settings, run, job, now, details_url=job.url, callback=report.wire(job.url or ""))
    _move(conn, run, now)
    with step("callback", delivery=run.delivery_id, run=run.id, began=now, downstream=run.downstream):
        log.info("callback", job=job.id, status=job.status, code=change.code)
    answer = {"ok": True, "status": flow.status, "recorded": True, "code": change.code, "job": job.id}
    if report.triage_problem is not None:
        answer["triage_verdict"] = {"recorded": False, "reason": report.triage_problem}
    return answer


def _move(conn: Connection, run: Row[Any], now: float) -> None:
    """The dispatch as its jobs say it is. A superseded one stays so: its jobs are recorded, nobody waits for them."""
    values: dict[str, Any] = {}
    if run.started_at is None:
        values["started_at"] = now
    if run.state != "superseded":
        whole = overall(jobs.views(conn, run.id))
        done = whole.state == "completed"
        values |= {
            "state": whole.state,
            "conclusion": whole.conclusion,
            "code": whole.code,
            "summary": whole.summary,
            "closed_at": (run.closed_at if run.state == "completed" else now) if done else None,
            "error": None,
        }
    if values:
        conn.execute(update(dispatch).where(dispatch.c.id == run.id).values(**values))


def _find(conn: Connection, delivery_id: str, identity: Identity, entry: Entry | None) -> Row[Any] | None:
    """The dispatch, under whatever name the repository had then, locked: the reports on one dispatch are applied one
    after the other. It has the pull request's labels as they were last heard."""
    keys = {identity.repository.casefold()}
    if entry is not None:
        keys |= {entry.key, (entry.listed or entry.repo).casefold()}
    if identity.repository_id is not None:
        keys |= repositories.keys_of(conn, identity.repository_id)
    query = select(dispatch).where(dispatch.c.delivery_id == delivery_id, dispatch.c.downstream_key.in_(keys))
    run = conn.execute(query.limit(1).with_for_update()).one_or_none()
    if run is None or run.pr_number is None:
        return run
    labels = pull_requests.labels(conn, run.upstream, run.pr_number)
    if labels is None or labels == run.labels:
        return run
    conn.execute(update(dispatch).where(dispatch.c.id == run.id).values(labels=labels))
    return conn.execute(select(dispatch).where(dispatch.c.id == run.id)).one()


def _remember(conn: Connection, identity: Identity, entry: Entry) -> None:
    """A repository's number, and the name that it had when the token was made."""
    if identity.repository_id is None:
        return
    if entry.id is None or identity.repository.casefold() != entry.key:
        fact = RepositoryFact(identity.repository_id, identity.repository)
        repositories.hear(conn, fact, float(identity.claims["iat"]))


def _listed(engine: Engine, settings: Settings, now: float) -> Allowlist | None:
    try:
        return allowlists.current(engine, settings, now)
    except (AllowlistError, SettingsError) as exc:
        # a dispatch knows its own level; only who has none is answered less precisely
        log.warning("callback without an allowlist", error=str(exc))
        return None
