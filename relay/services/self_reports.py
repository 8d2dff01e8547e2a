"""Self-reports of nightly and periodic CI: kept as a dispatch of their own, one a downstream, kind and commit, so that
jobs, dashboard and pages treat them like all others."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, select

from relay.domain.allowlist import Entry
from relay.domain.self_reports import EVENT, SelfReport
from relay.errors import BadRequest, Forbidden
from relay.settings import Settings
from relay.store import deliveries, dispatches
from relay.store.schema import dispatch


def permit(settings: Settings, entry: Entry, about: SelfReport) -> None:
    """Refuses who is not to report by itself, and what is about another upstream. Forbidden, BadRequest."""
    if about.upstream.casefold() != settings.upstream_repo.casefold():
        raise BadRequest(
            f"payload.repository.full_name: {about.upstream} is not {settings.upstream_repo}",
            "a self-report is about the upstream of this relay",
            path="payload.repository.full_name",
        )
    if EVENT not in entry.events:
        raise Forbidden(
            f"{entry.repo} listens to {', '.join(entry.events)} only, and {about.event} reports need {EVENT}",
            f"have {EVENT} added to `events` of its entry in the allowlist",
        )


def run_of(conn: Connection, settings: Settings, entry: Entry, about: SelfReport, now: float) -> Row[Any]:
    """The dispatch that the report belongs to, locked; made by the first one. Level and oncalls are those of then."""
    deliveries.claim_ignored(
        conn,
        delivery_id=about.delivery_id,
        event=about.event,
        action=None,
        repo=settings.upstream_repo,
        code="self-report",
        reason=f"downstreams report on {about.sha} by themselves",
        now=now,
        state="noted",
    )
    row = {
        "delivery_id": about.delivery_id,
        "downstream": entry.repo,
        "downstream_key": entry.key,
        "level": entry.level,
        "device": entry.device,
        "oncalls": list(entry.oncalls),
        "executor": "github",
        "event": about.event,
        "action": None,
        "upstream": settings.upstream_repo,
        "head_sha": about.sha,
        "labels": [],
        "state": "running",
    }
    dispatches.add(conn, [row], now=now)
    query = select(dispatch).where(dispatch.c.delivery_id == about.delivery_id, dispatch.c.downstream_key == entry.key)
    return conn.execute(query.with_for_update()).one()
