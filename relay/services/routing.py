"""Routing a delivery: from a stored webhook to one dispatch per downstream that wants to hear of it."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from typing import Any

import structlog
from sqlalchemy import Connection, Engine, Row, select
from sqlalchemy.exc import DBAPIError

from relay.domain.allowlist import Allowlist, Entry
from relay.domain.check_output import inert
from relay.domain.events import Event, PullRequestEvent, PushEvent, parse
from relay.domain.policy import RouteDecision, route
from relay.errors import BadRequest, NotFound, RelayError, fault
from relay.services import allowlists, reporting, run_job
from relay.settings import Settings
from relay.store import deliveries, dispatches, shards
from relay.store.db import reading
from relay.store.schema import job

log = structlog.get_logger(__name__)
NO_RESULTS = {"passed": 0, "failed": 0, "skipped": 0, "total": 0}


def route_delivery(engine: Engine, settings: Settings, delivery_id: str, now: float) -> None:
    """Routes a delivery in state ``received``, in one transaction. Doing it again, or twice at once, has one effect.

    Raises AllowlistError or SettingsError while there is no usable allowlist, and whatever else breaks (the delivery
    then stays due and says why), NotFound for an id that was never claimed.
    """
    try:
        _route(engine, settings, delivery_id, allowlists.current(engine, settings, now), now)
    except (NotFound, DBAPIError):
        raise
    except Exception as exc:
        code, reason = "route-failed", f"the relay failed while it routed this: {fault(exc)}"
        if isinstance(exc, RelayError):
            code, reason = exc.code, str(exc)
        with engine.begin() as conn:
            deliveries.note(conn, delivery_id, code=code, reason=reason)
        raise


def _route(engine: Engine, settings: Settings, delivery_id: str, allowlist: Allowlist, now: float) -> None:
    # read and parsed before writers are made to wait
    with reading(engine) as conn:
        row = deliveries.get(conn, delivery_id)
    if row is None:
        raise NotFound(f"there is no delivery {delivery_id}", "ids come from the broker's message")
    if row.state != "received":
        return
    try:
        event = parse(row.event, deliveries.unpack(row.body))
    except (BadRequest, zlib.error, json.JSONDecodeError, TypeError) as exc:
        log.error("stored delivery cannot be read", delivery=delivery_id, error=str(exc))
        with engine.begin() as conn:
            if deliveries.lock_received(conn, delivery_id):
                deliveries.finish(conn, delivery_id, state="ignored", code="unreadable", reason=str(exc))
        return
    with engine.begin() as conn:
        if not deliveries.lock_received(conn, delivery_id):
            return
        decisions = route(event, allowlist, _prior_runs(conn, settings, event, row))
        for decision in decisions:
            _end(conn, settings, decision, now)
        _dispatch(conn, settings, row, event, decisions, now)
        state, code, reason = _outcome(decisions)
        deliveries.finish(conn, delivery_id, state=state, code=code, reason=reason)
    log.info("routed", delivery=delivery_id, webhook=row.event, action=row.action, code=code, reason=reason)


def _prior_runs(conn: Connection, settings: Settings, event: Event, row: Row[Any]) -> list[Any]:
    if not isinstance(event, PullRequestEvent):
        return []
    dispatches.lock_pull_request(conn, settings.upstream_repo, event.number)
    return dispatches.prior_runs(conn, settings.upstream_repo, event.number, row)


def _end(conn: Connection, settings: Settings, decision: RouteDecision, now: float) -> None:
    if decision.action in ("supersede", "cancel"):
        assert decision.run is not None
        if dispatches.supersede(conn, decision.run, code=decision.code, reason=decision.reason, now=now):
            _end_effects(conn, settings, decision, now)


def _dispatch(
    conn: Connection,
    settings: Settings,
    row: Row[Any],
    event: Event,
    decisions: tuple[RouteDecision, ...],
    now: float,
) -> None:
    """Everybody's dispatch in a few statements: there may be a hundred downstreams, and writers wait for each other."""
    facts = {
        "delivery_id": row.id,
        "event": event.name,
        "action": row.action,
        "upstream": settings.upstream_repo,
        **_facts(event),
    }
    entries = [decision.entry for decision in decisions if decision.action == "dispatch" and decision.entry is not None]
    at = now + _debounce(conn, settings, event, now)
    ids = dispatches.add(conn, [{**facts, **_of_entry(entry, event, at)} for entry in entries], now=now)
    asked = {
        dispatch_id: entry.repo
        for dispatch_id, entry in zip(ids, entries, strict=True)
        if dispatch_id is not None and entry.executor != "workers"
    }
    reporting.request_dispatches(conn, settings, asked, now, at=at)
    if at > now:
        return  # the workers' run is announced when it is selected, if it still counts then
    for dispatch_id, entry in zip(ids, entries, strict=True):
        if dispatch_id is not None and entry.executor == "workers" and entry.level == "L4":
            run_job.ensure(conn, settings, dispatches.get_made(conn, dispatch_id), now)


def _debounce(conn: Connection, settings: Settings, event: Event, now: float) -> float:
    """Seconds that a push to a pull request waits, because the one before it was so recent: of a storm of pushes the
    first is told at once and the last when it is over; those in between are superseded before they leave."""
    if not isinstance(event, PullRequestEvent) or event.action not in ("synchronize", "edited"):
        return 0.0
    since = now - settings.debounce_s
    return settings.debounce_s if dispatches.any_since(conn, settings.upstream_repo, event.number, since) else 0.0


def _of_entry(entry: Entry, event: Event, at: float) -> dict[str, Any]:
    by_workers = entry.executor == "workers"
    return {
        "downstream": entry.repo,
        "downstream_key": entry.key,
        "level": entry.level,
        "device": entry.device,
        "oncalls": list(entry.oncalls),
        "executor": entry.executor,
        "state": "selecting" if by_workers else "sending",
        "due_at": at if by_workers else None,
        "author_trusted": isinstance(event, PullRequestEvent) and entry.trusts(event.author, event.author_association),
    }


def _facts(event: Event) -> dict[str, Any]:
    """What a dispatch remembers of its event. Later reports are held against this, never against their own echo."""
    if isinstance(event, PushEvent):
        return {"head_sha": event.after, "base_sha": None, "base_ref": event.ref[:255], "author": event.pusher}
    return {
        "pr_number": event.number,
        "pr_title": event.title,
        "author": event.author,
        "base_sha": event.base_sha,
        "head_sha": event.head_sha,
        "base_ref": event.base_ref,
        "head_repo": event.head_repo,
        "labels": list(event.labels),
    }


def _end_effects(conn: Connection, settings: Settings, decision: RouteDecision, now: float) -> None:
    """A superseded dispatch that was not yet sent is not sent: it could cancel its successor downstream. Of a run on
    our own workers the shards that nobody has begun are ended (who has begun one hears of it by its next heartbeat),
    and where it was announced it is ended on the pull request too."""
    run_id = decision.run
    assert run_id is not None
    dispatches.drop_unsent(conn, run_id, decision.reason)
    shards.cancel(conn, run_id, reason=decision.reason, now=now)
    run = dispatches.get(conn, run_id)
    if run is not None and run.executor == "github":
        reporting.superseded(conn, settings, run, decision.reason, now)
    announced = conn.execute(select(job.c.id).where(job.c.dispatch_id == run_id).limit(1)).first()
    if run is not None and run.executor == "workers" and announced is not None:
        run_job.completed(
            conn,
            settings,
            run_id,
            now,
            conclusion="cancelled",
            results=NO_RESULTS,
            title="Cancelled",
            summary=inert(decision.reason, 2000),
            text=None,
        )


def _outcome(decisions: tuple[RouteDecision, ...]) -> tuple[str, str, str]:
    """State, code and sentence of the delivery as a whole."""
    done = Counter(d.action for d in decisions if d.action != "ignore")
    ignored = [d for d in decisions if d.action == "ignore"]
    if not done:
        codes = {d.code for d in ignored}
        code = codes.pop() if len(codes) == 1 else "nobody-listens"
        return "ignored", code, "; ".join(dict.fromkeys(d.reason for d in ignored)) or "no downstream listens"
    words = {"dispatch": "dispatched", "supersede": "superseded", "cancel": "cancelled"}
    parts = [f"{number} {words[action]}" for action, number in done.items()]
    parts += [f"{d.entry.repo if d.entry else 'all'} left out: {d.reason}" for d in ignored]
    return "routed", "routed", "; ".join(parts)
