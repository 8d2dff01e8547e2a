"""Requests to run a downstream's jobs again, by the check runs that we made for them."""

from __future__ import annotations

from sqlalchemy import Connection, select

from relay.domain.facts import RerunFact
from relay.store.ids import new_id
from relay.store.schema import dispatch, job, rerun
from relay.store.upsert import insert_once


def ask(conn: Connection, delivery_id: str, upstream: str, fact: RerunFact, now: float) -> int:
    """One row, due now, for each downstream run whose check is meant: of a check run its failed jobs, of a whole suite
    all of them. Only jobs that have a check run of ours count. Returns how many."""
    query = (
        select(dispatch.c.id, job.c.run_id)
        .join(job, job.c.dispatch_id == dispatch.c.id)
        .where(dispatch.c.upstream == upstream, dispatch.c.head_sha == fact.head_sha, job.c.check_run_id.is_not(None))
        .distinct()
    )
    if fact.check_run_id is not None:
        query = query.where(job.c.check_run_id == fact.check_run_id)
    scope = "all" if fact.check_run_id is None else "failed"
    asked = 0
    for row in conn.execute(query).all():
        asked += insert_once(
            conn,
            rerun,
            {
                "id": new_id(now),
                "delivery_id": delivery_id,
                "dispatch_id": row.id,
                "run_id": row.run_id,
                "scope": scope,
                "requested_by": fact.requested_by,
                "state": "waiting",
                "due_at": now,
                "created_at": now,
            },
        )
    return asked
