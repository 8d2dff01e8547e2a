"""What is known of the selection's own quality: recall by exploration, rankers on trial, open proposals, searches."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from sqlalchemy import Connection, select

from relay.store.schema import bisection, dispatch, plan, proposal, quarantine
from selector.model import TestId
from selector.plan.explore import CODE, Explored, recall
from selector.plan.shadow import IN_FORCE, Trial, may_take_over, score, trial

RUNS = 5000
ROWS = 100


def quality(conn: Connection, now: float) -> dict[str, Any]:
    """Newest RUNS completed runs. A partial plan is left out of the recall: what it lacks was selected, not missed."""
    explored: list[Explored] = []
    trials: dict[str, list[Trial]] = defaultdict(list)
    rows = conn.execute(
        select(plan.c.exploration, plan.c.shadow, plan.c.partial, dispatch.c.verdict)
        .join(dispatch, dispatch.c.id == plan.c.dispatch_id)
        .where(dispatch.c.state == "completed", dispatch.c.verdict.is_not(None))
        .order_by(dispatch.c.created_at.desc())
        .limit(RUNS)
    )
    runs = 0
    for row in rows:
        runs += 1
        broken = [c for c in (row.verdict or {}).get("causes", ()) if c["kind"] == "regression"]
        drawn = {c["test"] for c in broken if c["codes"] == [CODE]}
        selected = {c["test"] for c in broken} - drawn
        if row.exploration and not row.partial:
            explored.append(Explored(row.exploration["fraction"], len(selected), len(drawn)))
        if row.shadow:
            _trials(row.shadow, frozenset(map(TestId.parse, selected)), trials)
    told = recall(explored)
    return {
        "runs": runs,
        "recall": {name: getattr(told, name) for name in told.__slots__},
        "in_force": IN_FORCE[0],
        "on_trial": [_candidate(name, held) for name, held in sorted(trials.items())],
        "proposals": _all(conn, proposal, proposal.c.state == "open", proposal.c.updated_at),
        "quarantine": _all(conn, quarantine, quarantine.c.until > now, quarantine.c.until),
        "bisections": _all(conn, bisection, bisection.c.id.is_not(None), bisection.c.created_at, without=("spec",)),
    }


def _trials(shadow: dict[str, Any], broken: frozenset[TestId], trials: dict[str, list[Trial]]) -> None:
    seconds = {TestId.parse(test): cost for test, cost in shadow["seconds"].items()}
    orders = {name: [TestId.parse(test) for test in tests] for name, tests in shadow["orders"].items()}
    in_force = orders.pop(IN_FORCE[0], [])
    for name, order in orders.items():
        trials[name].append(trial(order, in_force, seconds, broken))


def _candidate(name: str, held: list[Trial]) -> dict[str, Any]:
    told = score(held)
    ready, why = may_take_over(told, None, None)
    return {"name": name, **{part: getattr(told, part) for part in told.__slots__}, "ready": ready, "why": why}


def _all(conn: Connection, table: Any, where: Any, newest: Any, without: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    columns = [column for column in table.c if column.name not in without]
    rows = conn.execute(select(*columns).where(where).order_by(newest.desc()).limit(ROWS))
    return [dict(row._mapping) for row in rows]
