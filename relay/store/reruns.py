"""Requests to run a downstream's jobs again, by the check runs that we made for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, Row, Select, select, update

from relay.domain.facts import RerunFact
from relay.store.ids import new_id
from relay.store.schema import dispatch, job, rerun
from relay.store.upsert import insert_once


def ask(conn: Connection, delivery_id: str, upstream: str, fact: RerunFact, now: float) -> int:
    """One row, due now, for each downstream run whose check is meant: of a job's check run its failed jobs, of a whole
    suite all of them, and the dispatch itself where the check is the one that waits for a first report (of a suite: and
    there is no other). Only check runs of ours count, of a suite those of each downstream's newest dispatch. Returns
    how many."""
    named = fact.check_run_id
    jobs = select(dispatch.c.id, dispatch.c.downstream_key, job.c.run_id).join(job, job.c.dispatch_id == dispatch.c.id)
    jobs = jobs.where(job.c.check_run_id.is_not(None) if named is None else job.c.check_run_id == named)
    waiting = select(dispatch.c.id, dispatch.c.downstream_key)
    waiting = waiting.where(dispatch.c.check_run_id.is_not(None) if named is None else dispatch.c.check_run_id == named)
    runs = _on(conn, jobs.distinct(), upstream, fact)
    told = _on(conn, waiting, upstream, fact)
    if named is None:
        newest: dict[str, str] = {}
        for row in (*runs, *told):
            newest[row.downstream_key] = max(row.id, newest.get(row.downstream_key, ""))
        runs = [row for row in runs if row.id == newest[row.downstream_key]]
        shown = {row.id for row in runs}
        told = [row for row in told if row.id == newest[row.downstream_key] and row.id not in shown]
    scope = "all" if named is None else "failed"
    wanted = [(row.id, row.run_id, scope) for row in runs] + [(row.id, "", "dispatch") for row in told]
    return add(conn, delivery_id, wanted, requested_by=fact.requested_by, now=now, check_run_id=named)


def add(
    conn: Connection,
    delivery_id: str,
    wanted: Iterable[tuple[str, str, str]],
    *,
    requested_by: str | None,
    now: float,
    check_run_id: str | None = None,
) -> int:
    """One row, due now, for each (dispatch, run id, scope); -> how many are new."""
    asked = 0
    for dispatch_id, run_id, of in wanted:
        asked += insert_once(
            conn,
            rerun,
            {
                "id": new_id(now),
                "delivery_id": delivery_id,
                "dispatch_id": dispatch_id,
                "run_id": run_id,
                "scope": of,
                "check_run_id": check_run_id,
                "requested_by": requested_by,
                "state": "waiting",
                "due_at": now,
                "created_at": now,
            },
        )
    return asked


def settle(conn: Connection, rerun_id: str, reason: str | None) -> None:
    """It was asked for where the run is; ``reason``: it will not be, and why."""
    values = {"state": "asked" if reason is None else "refused", "reason": reason, "due_at": None}
    conn.execute(update(rerun).where(rerun.c.id == rerun_id).values(**values))


def _on(conn: Connection, query: Select[Any], upstream: str, fact: RerunFact) -> list[Row[Any]]:
    of_commit = query.where(dispatch.c.upstream == upstream, dispatch.c.head_sha == fact.head_sha)
    return list(conn.execute(of_commit).all())
