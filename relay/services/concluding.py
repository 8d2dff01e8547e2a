"""From results to a verdict: stage 4, the base comparison it asks for, and what the pull request is told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import structlog
from sqlalchemy import Connection, Engine, Row, select, update
from sqlalchemy.exc import DBAPIError

from relay.domain.check_output import inert, render
from relay.errors import NotFound, fault
from relay.services import run_job
from relay.services.sharding import add_base_shards
from relay.settings import Settings
from relay.store import plans, results, shards
from relay.store.db import reading
from relay.store.schema import dispatch
from selector.model import Conclusion, Decision, Outcome, RunPlan, Runtime, RuntimeKind, Side, Stage, TestId, Verdict
from selector.verify import ShardProblem, needs_base, needs_base_tests, report_problems, verify
from selector.verify.serialise import to_map

log = structlog.get_logger(__name__)

MAX_TRIES = 5
EMPTY_PLAN = RunPlan(Runtime(RuntimeKind.TESTS_ONLY, ""), (), ())


def conclude(engine: Engine, settings: Settings, dispatch_id: str, now: float) -> None:
    """Takes a run in state ``verifying`` one step on: to ``confirming`` (failures run on the base) or to its verdict.
    Doing it twice has one effect: each step moves the state in the transaction that does the step."""
    try:
        _conclude(engine, settings, dispatch_id, now)
    except (NotFound, DBAPIError):
        raise
    except Exception as exc:
        # results are a stranger's: what breaks the verdict on them must still end the run
        log.exception("verdict broke", dispatch=dispatch_id)
        _broke(engine, settings, dispatch_id, fault(exc), now)


def _conclude(engine: Engine, settings: Settings, dispatch_id: str, now: float) -> None:
    with reading(engine) as conn:
        run = _run(conn, dispatch_id)
        if run.state != "verifying":
            return
        head = list(results.of_side(conn, dispatch_id, Side.HEAD))
        base = list(results.of_side(conn, dispatch_id, Side.BASE))
        rows = shards.of_dispatch(conn, dispatch_id)
        plan = plans.load(conn, dispatch_id) or EMPTY_PLAN
        decisions = plans.decisions_of(conn, dispatch_id, (Stage.DISCOVER, Stage.TRIAGE))
    problems = tuple(_problems(rows))
    if not any(r.side == Side.BASE.value for r in rows) and run.compare_sha:
        keys, whole = needs_base(head), needs_base_tests(head, problems, plan)
        if keys or whole:
            tests = {result.key: result.test for result in head}
            _confirm(engine, settings, run, {key: tests[key] for key in keys}, whole, now)
            return
    verdict = verify(_why(plan, decisions), head, base, problems, plan)
    with engine.begin() as conn:
        _close(conn, settings, run, verdict, now)


def _broke(engine: Engine, settings: Settings, dispatch_id: str, error: str, now: float) -> None:
    """Counts a verdict that broke. The pump hands the run over again, and the last try ends it."""
    with engine.begin() as conn:
        broken = update(dispatch).where(dispatch.c.id == dispatch_id, dispatch.c.state == "verifying")
        tries = conn.execute(broken.values(tries=dispatch.c.tries + 1, error=error).returning(dispatch.c.tries))
        if (tries.scalar_one_or_none() or 0) >= MAX_TRIES:
            error = f"the relay failed while it looked at the results: {error}"
            give_up(conn, settings, dispatch_id, code="conclude-failed", error=error, now=now, title="No verdict")


def give_up(
    conn: Connection,
    settings: Settings,
    dispatch_id: str,
    *,
    code: str,
    error: str,
    now: float,
    title: str = "Nothing was run",
) -> None:
    """Ends a run that came to no plan or no verdict: neutral, with the reason; never silently."""
    sentence = f"{title}: {error}"
    moved = conn.execute(
        update(dispatch)
        .where(dispatch.c.id == dispatch_id, dispatch.c.state.in_(("selecting", "running", "confirming", "verifying")))
        .values(
            state="failed",
            claim=None,
            due_at=None,
            closed_at=now,
            conclusion=Conclusion.NEUTRAL.value,
            code=code,
            summary=sentence,
            error=error,
        )
    )
    if moved.rowcount:
        run_job.completed(
            conn,
            settings,
            dispatch_id,
            now,
            conclusion=Conclusion.NEUTRAL.value,
            results={"passed": 0, "failed": 0, "skipped": 0, "total": 0},
            title=title,
            summary=inert(sentence, 2000),
            text=None,
        )


def _confirm(
    engine: Engine, settings: Settings, run: Row[Any], keys: Mapping[str, TestId], whole: Sequence[TestId], now: float
) -> None:
    with engine.begin() as conn:
        moved = conn.execute(
            update(dispatch)
            .where(dispatch.c.id == run.id, dispatch.c.state == "verifying")
            .values(state="confirming", due_at=None, tries=0, error=None)
        )
        if moved.rowcount:
            add_base_shards(conn, settings, run, keys, whole, now)
    log.info("failures run again on the base", dispatch=run.id, variants=len(keys), tests=len(whole))


def _close(conn: Connection, settings: Settings, run: Row[Any], verdict: Verdict, now: float) -> None:
    moved = conn.execute(
        update(dispatch)
        .where(dispatch.c.id == run.id, dispatch.c.state == "verifying")
        .values(
            state="completed",
            due_at=None,
            error=None,
            closed_at=now,
            conclusion=verdict.conclusion.value,
            code=verdict.code,
            summary=verdict.sentence,
            verdict=to_map(verdict),
        )
    )
    if not moved.rowcount:
        return
    plans.add_decisions(conn, run.id, verdict.decisions)
    output = render(verdict, run_job.run_url(settings, run.id))
    run_job.completed(
        conn,
        settings,
        run.id,
        now,
        conclusion=verdict.conclusion.value,
        results=callback_counts(verdict.counts),
        title=output.title,
        summary=output.summary,
        text=output.text,
    )
    log.info("verdict", dispatch=run.id, conclusion=verdict.conclusion.value, code=verdict.code)


def callback_counts(counts: dict[str, int]) -> dict[str, int]:
    """Outcome counts in the callback's four words. An expected failure passed its expectation."""
    passed = sum(counts.get(o.value, 0) for o in (Outcome.PASSED, Outcome.XFAILED))
    skipped = sum(counts.get(o.value, 0) for o in (Outcome.SKIPPED, Outcome.SELF_SKIPPED))
    total = sum(counts.get(o.value, 0) for o in Outcome)
    return {"passed": passed, "failed": total - passed - skipped, "skipped": skipped, "total": total}


def _why(plan: RunPlan, decisions: list[Decision]) -> dict[TestId, tuple[tuple[str, ...], tuple[Decision, ...]]]:
    by_subject: dict[str, list[Decision]] = {}
    for decision in decisions:
        by_subject.setdefault(decision.subject, []).append(decision)
    return {t.test: (t.codes, tuple(by_subject.get(str(t.test), ()))) for t in plan.tests}


def _problems(rows: Iterable[Row[Any]]) -> Iterable[ShardProblem]:
    for row in rows:
        if row.state == "failed":
            yield ShardProblem(row.id, Side(row.side), "infrastructure", row.error or "the worker could not run it", "")
        yield from report_problems(row.id, Side(row.side), row.report or {})


def _run(conn: Connection, dispatch_id: str) -> Row[Any]:
    row = conn.execute(select(dispatch).where(dispatch.c.id == dispatch_id)).one_or_none()
    if row is None:
        raise NotFound(f"there is no run {dispatch_id}")
    return row
