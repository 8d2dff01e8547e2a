"""What is known of the selection's own quality: recall by exploration, what is on trial, open proposals, searches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection, select

from relay.store import trials
from relay.store.schema import bisection, dispatch, plan, proposal, quarantine
from relay.store.views_parts import holds
from selector.plan.explore import CODE, Explored, recall
from selector.plan.observed import Observed
from selector.plan.ranking import IN_FORCE
from selector.plan.shadow import Score
from selector.plan.takeover import ReplayReport, may_take_over

RUNS = 5000
ROWS = 100
SHOWN_OF = 50
"""newest plans of which it is shown where rules and models on trial would have decided otherwise"""
EXAMPLES = 5


def quality(
    conn: Connection, now: float, replays: Mapping[str, ReplayReport] | None = None, problem: str = ""
) -> dict[str, Any]:
    """Newest RUNS completed runs. A partial plan is left out of the recall: what it lacks was selected, not missed.
    ``replays``: what the last replay says by subject; ``problem``: why it cannot be read."""
    explored: list[Explored] = []
    rows = conn.execute(
        select(plan.c.exploration, plan.c.partial, dispatch.c.verdict)
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
    told = recall(explored)
    live = trials.live(conn)
    examples = _examples(conn)
    return {
        "runs": runs,
        "recall": {name: getattr(told, name) for name in told.__slots__},
        "in_force": IN_FORCE[0],
        "on_trial": [
            {**_candidate(name, live.get(name), replays or {}), "examples": examples.get(name, [])}
            for name in sorted({*live, *(replays or {}), *examples})
        ],
        "replay_problem": problem,
        "proposals": _all(conn, proposal, proposal.c.state == "open", proposal.c.updated_at),
        "quarantine": _all(conn, quarantine, holds(now), quarantine.c.until),
        "bisections": _all(conn, bisection, bisection.c.id.is_not(None), bisection.c.created_at, without=("spec",)),
    }


def _examples(conn: Connection) -> dict[str, list[dict[str, Any]]]:
    """Newest decisions of rules and models that were not acted upon: run, verdict, test, code and reason."""
    query = select(plan.c.dispatch_id, plan.c.shadow).order_by(plan.c.created_at.desc()).limit(SHOWN_OF)
    found: dict[str, list[dict[str, Any]]] = {}
    for row in conn.execute(query):
        for one in (row.shadow or {}).get("opinions", ()):
            held = found.setdefault(one["subject"], [])
            for said in one["reasons"][: EXAMPLES - len(held)]:
                verdict = "keep" if said["test"] in one["adds"] else "drop"
                held.append({"run": row.dispatch_id, "verdict": verdict, **said})
    return {subject: held for subject, held in found.items() if held}


def _candidate(name: str, held: Score | Observed | None, replays: Mapping[str, ReplayReport]) -> dict[str, Any]:
    """One subject: ``kind`` rule, ranker or model; ``live`` its counts (None: no run has had it on trial)."""
    replay = replays.get(name)
    kind, _, short = name.partition(":")
    told = {"subject": name, "kind": kind, "name": short, "replay": replay.model_dump() if replay else None}
    if held is None:
        return {**told, "live": None, "ready": False, "why": "no run has had it on trial"}
    answer = may_take_over(held, replay)
    return {**told, "live": asdict(held), "ready": answer.ready, "why": answer.why}


def _all(conn: Connection, table: Any, where: Any, newest: Any, without: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    columns = [column for column in table.c if column.name not in without]
    rows = conn.execute(select(*columns).where(where).order_by(newest.desc()).limit(ROWS))
    return [dict(row._mapping) for row in rows]
