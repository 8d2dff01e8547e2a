"""What the page of one test reads: what it did in which run, and what the stages decided about it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, case, func, select

from relay.domain.rates import wilson
from relay.errors import BadRequest, NotFound
from relay.store.schema import decision, dispatch, proposal, quarantine, result
from relay.store.trunk import NOT_EXECUTED, SIDES, is_trunk
from relay.store.views_parts import BRIEF, FAILING, brief, holds, plain
from selector.model import TestId

NEWEST_RESULTS = 6_000
"""Results of a test that are looked at, newest first: a test of hundreds of variants reaches back some thirty runs."""
DECISIONS_SHOWN = 200
RUNS_SHOWN = 100
ROWS = 50


def history(conn: Connection, test: str, *, now: float, base_url: str) -> dict[str, Any]:
    """Runs that ran ``test`` or decided about it, newest first. BadRequest for what is no test id, NotFound for a test
    that no run knows."""
    try:
        TestId.parse(test)
    except ValueError as exc:
        raise BadRequest(str(exc), "write it as upstream does: test/test_x.py::TestFoo::test_bar") from exc
    newest = (
        select(result.c.dispatch_id, result.c.side, result.c.outcome, result.c.seconds, result.c.kernels)
        .where(result.c.test == test)
        .order_by(result.c.recorded_at.desc())
        .limit(NEWEST_RESULTS)
        .subquery()
    )
    runs: dict[str, dict[str, Any]] = {}
    looked_at = 0
    for row in conn.execute(
        select(
            newest.c.dispatch_id,
            newest.c.side,
            newest.c.outcome,
            func.count().label("n"),
            func.sum(newest.c.seconds).label("seconds"),
            func.sum(newest.c.kernels).label("kernels"),
        ).group_by(newest.c.dispatch_id, newest.c.side, newest.c.outcome)
    ):
        looked_at += row.n
        entry = runs.setdefault(row.dispatch_id, _empty())
        entry["outcomes"][row.side] = {**entry["outcomes"].get(row.side, {}), row.outcome: row.n}
        if row.side == "head":
            entry["variants"] += row.n
            entry["failing"] += row.n if row.outcome in FAILING else 0
            entry["seconds"] += row.seconds
            if row.kernels is not None:
                entry["kernels"] = (entry["kernels"] or 0) + row.kernels
    decided = conn.execute(
        select(
            decision.c.dispatch_id,
            decision.c.stage,
            decision.c.verdict,
            decision.c.code,
            decision.c.reason,
            decision.c.evidence,
            decision.c.confidence,
            decision.c.by,
        )
        .where(decision.c.subject == test)
        .order_by(decision.c.id.desc())
        .limit(DECISIONS_SHOWN)
    ).all()
    for row in reversed(decided):
        entry = plain(row)
        runs.setdefault(entry.pop("dispatch_id"), _empty())["decisions"].append(entry)
    if not runs:
        raise NotFound(f"no run knows the test {test}", "check its spelling; a run's page links the tests it ran")
    rows = conn.execute(
        select(*BRIEF).where(dispatch.c.id.in_(list(runs))).order_by(dispatch.c.created_at.desc()).limit(RUNS_SHOWN)
    )
    return {
        "now": now,
        "test": test,
        "results_looked_at": looked_at,
        "truncated": looked_at >= NEWEST_RESULTS,
        "runs": [{"run": brief(row, base_url), **runs[row.id]} for row in rows],
        "flake": flake_rate(conn, test),
        "quarantine": quarantined(conn, test, now),
        "proposals": proposed(conn, test),
    }


def flake_rate(conn: Connection, test: str) -> dict[str, Any]:
    """How often the test passes and fails on one and the same commit of trunk.

    ``pairs`` are variants on a commit that ran more than once, ``mixed`` those of them that did both; ``rate`` with its
    Wilson interval ``low`` to ``high`` (95 %), None while nothing ran twice. Only sides without a change count: what a
    pull request does to a test says nothing about the test. ``runs`` and ``failures``: of all variants on trunk.
    """
    newest = (
        select(result.c.dispatch_id, result.c.variant, result.c.outcome)
        .where(result.c.test == test, result.c.side.in_(SIDES))
        .order_by(result.c.recorded_at.desc())
        .limit(NEWEST_RESULTS)
        .subquery()
    )
    bad = case((newest.c.outcome.in_(FAILING), 1), else_=0)
    pairs = (
        select(func.count().label("n"), func.sum(bad).label("bad"))
        .select_from(newest)
        .join(dispatch, dispatch.c.id == newest.c.dispatch_id)
        .where(newest.c.outcome.not_in(NOT_EXECUTED), is_trunk())
        .group_by(dispatch.c.compare_sha, newest.c.variant)
        .subquery()
    )
    row = conn.execute(
        select(
            func.count().label("variants"),
            func.coalesce(func.sum(pairs.c.n), 0).label("runs"),
            func.coalesce(func.sum(pairs.c.bad), 0).label("failures"),
            func.coalesce(func.sum(case((pairs.c.n > 1, 1), else_=0)), 0).label("pairs"),
            func.coalesce(func.sum(case(((pairs.c.bad > 0) & (pairs.c.bad < pairs.c.n), 1), else_=0)), 0).label(
                "mixed"
            ),
        )
    ).one()
    found = {name: int(getattr(row, name)) for name in ("runs", "failures", "pairs", "mixed")}
    low, high = wilson(found["mixed"], found["pairs"]) if found["pairs"] else (None, None)
    return {**found, "rate": found["mixed"] / found["pairs"] if found["pairs"] else None, "low": low, "high": high}


def quarantined(conn: Connection, test: str, now: float) -> list[dict[str, Any]]:
    """Notes that the test, or variants of it, are flaky, and that hold now."""
    columns = [quarantine.c[name] for name in ("id", "device", "variant", "reason", "evidence", "issue", "until")]
    rows = conn.execute(
        select(*columns, quarantine.c.created_at)
        .where(holds(now), quarantine.c.test == test)
        .order_by(quarantine.c.until)
        .limit(ROWS)
    )
    return [plain(row) for row in rows]


def proposed(conn: Connection, test: str) -> list[dict[str, Any]]:
    """What was proposed about the test and nobody has answered yet."""
    columns = [proposal.c[name] for name in ("id", "device", "kind", "reason", "issue", "updated_at")]
    rows = conn.execute(
        select(*columns)
        .where(proposal.c.state == "open", proposal.c.subject == test)
        .order_by(proposal.c.id)
        .limit(ROWS)
    )
    return [plain(row) for row in rows]


def _empty() -> dict[str, Any]:
    return {"outcomes": {}, "variants": 0, "failing": 0, "seconds": 0.0, "kernels": None, "decisions": []}
