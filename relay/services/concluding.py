"""From results to a verdict: stage 4, and the further runs that it asks for."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Any

import structlog
from sqlalchemy import Connection, Engine, Row, select, update
from sqlalchemy.exc import DBAPIError

from relay.errors import NotFound, fault
from relay.services import bisecting, closing, confirming, trying
from relay.services.gathering import gather
from relay.settings import Settings
from relay.store import plans, trunk
from relay.store.db import reading
from relay.store.schema import dispatch
from selector.model import Decision, RunPlan, TestId
from selector.plan.planner import OVER_BUDGET
from selector.verify import verify

log = structlog.get_logger(__name__)

MAX_TRIES = 5
"""Looks at the results that were begun, whether they broke or their process was killed."""
CLAIM_S = 12.0
"""How long one look may take before another process may have the run."""


def conclude(engine: Engine, settings: Settings, dispatch_id: str, now: float) -> None:
    """Takes a run in state ``verifying`` one step on: to ``confirming`` (more runs are needed) or to its verdict.
    Doing it twice has one effect: each step moves the state in the transaction that does the step."""
    if not _claim(engine, settings, dispatch_id, now):
        return
    try:
        _conclude(engine, settings, dispatch_id, now)
    except (NotFound, DBAPIError):
        raise
    except Exception as exc:
        # results are a stranger's: what breaks the verdict on them must still end the run
        log.exception("verdict broke", dispatch=dispatch_id)
        _broke(engine, settings, dispatch_id, fault(exc), now)


def _claim(engine: Engine, settings: Settings, dispatch_id: str, now: float) -> bool:
    """Counts one more try beforehand, for a process that is killed in the middle of a verdict cannot: a run whose
    results kill whoever looks at them would be handed over for ever. False: it is not to be concluded, or another
    process is at it, or this was one try too many, which ends the run."""
    with engine.begin() as conn:
        row = conn.execute(select(dispatch).where(dispatch.c.id == dispatch_id).with_for_update()).one_or_none()
        if row is None:
            raise NotFound(f"there is no run {dispatch_id}")
        if row.state != "verifying" or (row.claim is not None and (row.due_at or 0) > now):
            return False
        if row.tries >= MAX_TRIES:
            error = row.error or f"{row.tries} processes that looked at its results ended in the middle of it"
            _end_without(conn, settings, dispatch_id, error, now)
            return False
        mine = {"claim": secrets.token_hex(16), "due_at": now + CLAIM_S, "tries": row.tries + 1}
        conn.execute(update(dispatch).where(dispatch.c.id == dispatch_id).values(**mine))
    return True


def _end_without(conn: Connection, settings: Settings, dispatch_id: str, error: str, now: float) -> None:
    error = f"the relay failed while it looked at the results: {error}"
    closing.without_verdict(
        conn, settings, dispatch_id, code="conclude-failed", error=error, now=now, title="No verdict"
    )


def _conclude(engine: Engine, settings: Settings, dispatch_id: str, now: float) -> None:
    with reading(engine) as conn:
        run = _run(conn, dispatch_id)
        seen = gather(conn, settings, run, now)
        over = plans.reasons(conn, dispatch_id, OVER_BUDGET)
    if run.event == trunk.TRUNK_EVENT:
        with engine.begin() as conn:
            closing.of_trunk(conn, run, len(seen.base) + seen.followed, now)
        return
    with engine.begin() as conn:
        if confirming.redo(conn, settings, run, seen.rows, now):
            return
        step = seen.step() if run.compare_sha else None
        if step is not None:
            confirming.add(conn, settings, run, step, seen.head, seen.rows, now)
            return
    verdict = verify(
        _why(seen.plan, seen.decisions), seen.head, seen.base, seen.problems, seen.plan, seen.again, seen.trusted
    )
    verdict = replace(verdict, warnings=(*over, *verdict.warnings))
    with engine.begin() as conn:
        closing.with_verdict(conn, settings, run, verdict, now)
        trying.record(conn, run.id, seen.again.effective(seen.head), verdict, now)
        bisecting.begin(conn, run, verdict, seen.rows, now)


def _broke(engine: Engine, settings: Settings, dispatch_id: str, error: str, now: float) -> None:
    """Notes that a verdict broke. The pump hands the run over again, and the last try ends it."""
    with engine.begin() as conn:
        broken = update(dispatch).where(dispatch.c.id == dispatch_id, dispatch.c.state == "verifying")
        again = broken.values(claim=None, due_at=now + settings.requeue_s, error=error)
        tries = conn.execute(again.returning(dispatch.c.tries)).scalar_one_or_none()
        if (tries or 0) >= MAX_TRIES:
            _end_without(conn, settings, dispatch_id, error, now)


def _why(plan: RunPlan, decisions: list[Decision]) -> dict[TestId, tuple[tuple[str, ...], tuple[Decision, ...]]]:
    by_subject: dict[str, list[Decision]] = {}
    for decision in decisions:
        by_subject.setdefault(decision.subject, []).append(decision)
    return {t.test: (t.codes, tuple(by_subject.get(str(t.test), ()))) for t in plan.tests}


def _run(conn: Connection, dispatch_id: str) -> Row[Any]:
    row = conn.execute(select(dispatch).where(dispatch.c.id == dispatch_id)).one_or_none()
    if row is None:
        raise NotFound(f"there is no run {dispatch_id}")
    return row
