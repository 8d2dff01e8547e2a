"""The end of a run on our own workers: its row, and what its job then says outside. Once, whoever ends it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import structlog
from sqlalchemy import Connection, Row, update

from relay.domain.check_output import CheckOutput, inert, render
from relay.services import run_job
from relay.settings import Settings
from relay.store import plans
from relay.store.schema import dispatch
from selector.model import Conclusion, Outcome, Verdict
from selector.verify.serialise import to_map

log = structlog.get_logger(__name__)
CONCLUDING = ("verifying",)
OPEN = ("selecting", "running", "confirming", "verifying")
NOTHING = {"passed": 0, "failed": 0, "skipped": 0, "total": 0}


@dataclass(frozen=True, slots=True)
class Ending:
    """What a run came to. ``error``: why it came to no verdict."""

    conclusion: str
    code: str
    summary: str
    error: str | None = None
    verdict: dict[str, Any] | None = None


def with_verdict(conn: Connection, settings: Settings, run: Row[Any], verdict: Verdict, now: float) -> None:
    """Ends a run by what its results say."""
    ending = Ending(verdict.conclusion.value, verdict.code, verdict.sentence, verdict=to_map(verdict))
    if not _end(conn, run.id, ending, now, CONCLUDING):
        return
    plans.add_decisions(conn, run.id, verdict.decisions)
    output = render(verdict, run_job.run_url(settings, run.id))
    _tell(conn, settings, run.id, ending, callback_counts(verdict.counts), output, now)
    log.info("verdict", dispatch=run.id, conclusion=ending.conclusion, code=ending.code)


def without_verdict(
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
    ending = Ending(Conclusion.NEUTRAL.value, code, f"{title}: {error}", error=error)
    if _end(conn, dispatch_id, ending, now, OPEN):
        output = CheckOutput(title, inert(ending.summary, 2000), "")
        _tell(conn, settings, dispatch_id, ending, NOTHING, output, now)


def of_trunk(conn: Connection, run: Row[Any], results: int, now: float) -> None:
    """Ends a run of trunk's own: it has no verdict, its results are what others are compared with."""
    told = f"{results} results of trunk's {run.compare_sha[:10]}"
    _end(conn, run.id, Ending(Conclusion.NEUTRAL.value, "trunk-ran", told), now, CONCLUDING)


def callback_counts(counts: dict[str, int]) -> dict[str, int]:
    """Outcome counts in the callback's four words. An expected failure passed its expectation."""
    passed = sum(counts.get(o.value, 0) for o in (Outcome.PASSED, Outcome.XFAILED))
    skipped = sum(counts.get(o.value, 0) for o in (Outcome.SKIPPED, Outcome.SELF_SKIPPED))
    total = sum(counts.get(o.value, 0) for o in Outcome)
    return {"passed": passed, "failed": total - passed - skipped, "skipped": skipped, "total": total}


def _end(conn: Connection, dispatch_id: str, ending: Ending, now: float, states: tuple[str, ...]) -> bool:
    """False: it had come to another end."""
    mine = update(dispatch).where(dispatch.c.id == dispatch_id, dispatch.c.state.in_(states))
    values: dict[str, Any] = {
        "state": "completed" if ending.error is None else "failed",
        "claim": None,
        "due_at": None,
        "closed_at": now,
        "conclusion": ending.conclusion,
        "code": ending.code,
        "summary": ending.summary,
        "error": ending.error,
    }
    if ending.verdict is not None:
        values["verdict"] = ending.verdict
    return conn.execute(mine.values(**values)).rowcount == 1


def _tell(
    conn: Connection,
    settings: Settings,
    dispatch_id: str,
    ending: Ending,
    results: dict[str, int],
    output: CheckOutput,
    now: float,
) -> None:
    run_job.completed(
        conn,
        settings,
        dispatch_id,
        now,
        conclusion=ending.conclusion,
        results=results,
        title=output.title,
        summary=output.summary,
        text=output.text or None,
    )
