"""What a model reads in failures' logs: the causes of a run that has its verdict, and entries for the device's config.

Both happen after the fact, as chores: no run waits for them, and no verdict changes.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import structlog
from sqlalchemy import Connection, Engine, Row, select

from relay.artifacts import artifacts
from relay.services import log_tails, proposing
from relay.services.advising import Desks, past_of
from relay.services.device_configs import load_device
from relay.services.exploring import learn
from relay.settings import Settings
from relay.store import agents, chores, plans, results, trunk
from relay.store.db import reading
from relay.store.schema import dispatch
from selector.agents.configuring import Device, propose_edits
from selector.agents.desk import Desk
from selector.agents.explaining import Failure, explain
from selector.model import Conclusion, Side
from selector.plan.proposals import propose
from selector.plan.standing import Run
from selector.verify.judge import fails

log = structlog.get_logger(__name__)
LOOKED_BACK_S = 3600.0
"""A relay that starts, or gets a model, does not go through what is long past."""
RUNS = 5


def causes(engine: Engine, settings: Settings, memory: dict[str, Any], now: float) -> dict[str, Any]:
    """Asks about the failures of runs that got their verdict since the last time, oldest first; one run a look.
    ``memory``: {"after": when the last one that was looked at closed}."""
    known = chores.past(memory, "after", now)
    if known is None and "after" in memory:
        known = now  # what closed by a clock that was ahead has been asked about
    after = max(known or 0.0, now - LOOKED_BACK_S)
    with reading(engine) as conn:
        rows = conn.execute(
            select(dispatch)
            .where(
                dispatch.c.state == "completed",
                dispatch.c.conclusion != Conclusion.SUCCESS.value,
                dispatch.c.verdict.is_not(None),
                dispatch.c.closed_at > after,
            )
            .order_by(dispatch.c.closed_at)
            .limit(RUNS)
        ).all()
    for run in rows:
        after = run.closed_at
        if _explained(engine, settings, run, now):
            break
    return {"after": after}


def _explained(engine: Engine, settings: Settings, run: Row[Any], now: float) -> bool:
    """Whether there was anything to ask."""
    device = run.device or settings.device
    with reading(engine) as conn:
        failures = _failures(conn, log_tails.Ends(artifacts(settings)), run)
        learned = learn(conn, device, now) if failures else None
        plan = plans.row(conn, run.id)
    if not failures:
        return False
    desks = Desks(settings)
    journal = desks.journal()
    desk = Desk(desks.scrub, sheet=load_device(settings.configs_dir).capability, past=past_of(learned))
    changed = sorted({*_paths(plan), *(path for cause in run.verdict["causes"] for path in cause["changes"])})
    decisions = explain(failures, changed, desks.mind, desk, desks.meter(), journal)
    in_force = settings.agents.mode == "on"
    with engine.begin() as conn:
        if in_force:
            plans.add_decisions(conn, run.id, decisions)
        agents.add(conn, journal.records, dispatch_id=run.id, device=device, in_force=in_force, now=now)
    log.info("causes asked", dispatch=run.id, failures=len(failures), named=len(decisions))
    return True


def _failures(conn: Connection, ends: log_tails.Ends, run: Row[Any]) -> list[Failure]:
    """One for each group of causes, with the message and the log's end of its first variant."""
    groups = run.verdict.get("groups") or []
    wanted = {group["keys"][0]: group for group in groups if group["keys"]}
    found = []
    for result in results.of_side(conn, run.id, Side.HEAD) if wanted else ():
        group = wanted.pop(result.key, None)
        if group is not None:
            text = result.message or group["title"]
            end = ends.of(results.end_of_log(conn, run.id, result))
            found.append(Failure(group["id"], result.key, group["kind"], text, end or ""))
    return found


def _paths(plan: Row[Any] | None) -> list[str]:
    if plan is None:
        return []
    return [*plan.runtime.get("files", ()), *(item["path"] for item in plan.not_exercised)]


# ------------------------------------------------------------------------------------------------------------ configs


def configs(engine: Engine, settings: Settings, now: float) -> dict[str, Any]:
    """Asks for entries for tests that fail on trunk for no limit that is known; what holds is kept as a proposal of the
    kind ``agent``, with its patch, until its reason is gone or a person decides."""
    found = load_device(settings.configs_dir)
    today = datetime.fromtimestamp(now, UTC).date()
    with reading(engine) as conn:
        runs = proposing.runs_of(conn, settings.device, now)
        learned = learn(conn, settings.device, now)
        ends = log_tails.Ends(artifacts(settings))
        unexplained = propose(runs, found.configs, today).unexplained
        failing = {test: _log(conn, ends, settings.device, runs[test]) for test in unexplained}
    desks = Desks(settings)
    journal = desks.journal()
    desk = Desk(desks.scrub, sheet=found.capability, past=past_of(learned))
    device = Device(found.texts, found.configs, found.capability)
    made = propose_edits(failing, device, today, desks.mind, desk, desks.meter(), journal) if failing else []
    in_force = settings.agents.mode == "on"
    with engine.begin() as conn:
        agents.add(conn, journal.records, dispatch_id=None, device=settings.device, in_force=in_force, now=now)
        if in_force and not (failing and not any(r.code == "agent-answered" for r in journal.records)):
            # where nobody answered, nothing is known to be gone
            proposing.keep(conn, settings.device, made, now, kinds=(proposing.AGENT,))
    return {"asked": len(failing), "proposed": len(made)}


def _log(conn: Connection, ends: log_tails.Ends, device: str, runs: list[Run]) -> str:
    """The newest failure's message and the end of its log."""
    for run in runs:
        for result in run.results:
            if fails(result):
                end = ends.of(trunk.end_of_log(conn, device, result))
                return f"{result.message or result.outcome.value}\n{end or ''}"
    return ""
