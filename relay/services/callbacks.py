"""A verified callback: bound to its dispatch, applied to its job, and answered, in one transaction."""

from __future__ import annotations

import hashlib
from typing import Any

import structlog
from sqlalchemy import Connection, Engine, Row, select, update

from relay.domain import callback as body
from relay.domain.lifecycle import overall
from relay.errors import AllowlistError, Conflict, DispatchUnknown, RepositoryUnknown, SettingsError, TokenReplayed
from relay.github.oidc import Identity
from relay.services import allowlists
from relay.services.reporting import report_job
from relay.settings import GITHUB_ISSUER, Settings
from relay.store import jobs, tokens
from relay.store.schema import dispatch

log = structlog.get_logger(__name__)


def receive(engine: Engine, settings: Settings, identity: Identity, raw: bytes, now: float) -> dict[str, Any]:
    """Applies the report ``raw`` of the verified ``identity`` and returns the answer, which is a promise: what it says
    is stored. Raises BadRequest, Forbidden, RepositoryUnknown, DispatchUnknown, TokenReplayed, Conflict."""
    report = body.parse(raw)
    body.bind(report, identity.claims)
    digest = hashlib.sha256(raw).hexdigest()
    level = _listed_level(engine, settings, identity.repository, now)
    with engine.begin() as conn:
        used = tokens.use(conn, identity.token_id, digest, identity.expires_at)
        if used is not None:
            if used.body_digest != digest:
                raise TokenReplayed("the token was used before, with another body", "ask for a new token per report")
            return dict(used.answer)
        run = _find(conn, report.delivery_id, identity.repository)
        if (run.level if run is not None else level) == "L1":
            reason = f"{identity.repository} is at level L1: its results are not shown upstream"
            answer = {"ok": True, "status": "ignored", "recorded": False, "code": "level-1", "reason": reason}
        elif run is not None:
            answer = _apply(conn, settings, identity, report, run, now)
        elif level is None and not _known(conn, identity.repository):
            raise RepositoryUnknown(
                f"{identity.repository} is on no allowlist of this relay", "ask upstream to add the repository"
            )
        else:
            raise DispatchUnknown(
                f"delivery {report.delivery_id} was never dispatched to {identity.repository}",
                "send back the delivery_id of the client_payload that started the run",
                path="delivery_id",
            )
        tokens.answer(conn, identity.token_id, answer)
    return answer


def _apply(
    conn: Connection, settings: Settings, identity: Identity, report: body.Callback, run: Row[Any], now: float
) -> dict[str, Any]:
    if run.executor != "github":
        raise Conflict(
            f"{run.downstream} is tested by this relay's own workers: nobody else reports on it",
            "set `executor: github` for it in the allowlist, or stop reporting",
        )
    flow = report.workflow
    url = body.run_url(report, run.downstream, identity.issuer == GITHUB_ISSUER)
    key = jobs.JobKey(flow.name, report.job_name, flow.run_id, flow.run_attempt)
    claimed_id = identity.claims.get("check_run_id")
    job, change = jobs.record(
        conn,
        run,
        key,
        report.report(now),
        url=url,
        check_run_id=flow.check_run_id or (str(claimed_id)[:64] if claimed_id else None),
    )
    if change.publish:
        report_job(conn, settings, run, job, now, details_url=job.url, callback=report.wire(job.url or ""))
    _move(conn, run, now)
    log.info("callback", dispatch=run.id, job=job.id, status=job.status, code=change.code)
    return {"ok": True, "status": flow.status, "recorded": True, "code": change.code, "job": job.id}


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


def _find(conn: Connection, delivery_id: str, repository: str) -> Row[Any] | None:
    """The dispatch, locked: the reports on one dispatch are applied one after the other."""
    query = select(dispatch).where(
        dispatch.c.delivery_id == delivery_id, dispatch.c.downstream_key == repository.casefold()
    )
    return conn.execute(query.with_for_update()).one_or_none()


def _known(conn: Connection, repository: str) -> bool:
    query = select(dispatch.c.id).where(dispatch.c.downstream_key == repository.casefold()).limit(1)
    return conn.execute(query).first() is not None


def _listed_level(engine: Engine, settings: Settings, repository: str, now: float) -> str | None:
    try:
        entry = allowlists.current(engine, settings, now).find(repository)
    except (AllowlistError, SettingsError) as exc:
        # the dispatch knows its own level; only a repository without one is answered less precisely
        log.warning("callback without an allowlist", error=str(exc))
        return None
    return entry.level if entry is not None else None
