"""Parts that several pages read the same way: a dispatch in brief, its counts, shards and jobs.

The views (this module and ``relay.store.views*``) take an open connection of ``relay.store.db.reading`` and return
plain values (str, int, float, list, dict), the same ones for a page and for its JSON twin. Times are seconds since the
epoch. Queries are bounded: counts are made in SQL, lists have a limit, and wide columns (bodies, specs, logs) stay
where they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from sqlalchemy import ColumnElement, Connection, Row, func, select
from sqlalchemy import distinct as sql_distinct

from relay.store import shard_logs
from relay.store.schema import dispatch, job, outbox, plan, quarantine, result, shard
from selector.model import FAILED

AnyRow: TypeAlias = Row[*tuple[Any, ...]]

CLOSED = ("completed", "superseded", "failed")
"""States of a dispatch in which nothing more happens."""

FAILING = tuple(outcome.value for outcome in FAILED)
"""Outcomes that count against a change, whatever the config expected (an xpass counts only under xfail_strict)."""

SHARDS_SHOWN = 200

BRIEF = (
    dispatch.c.id,
    dispatch.c.downstream,
    dispatch.c.device,
    dispatch.c.level,
    dispatch.c.executor,
    dispatch.c.event,
    dispatch.c.action,
    dispatch.c.upstream,
    dispatch.c.pr_number,
    dispatch.c.pr_title,
    dispatch.c.author,
    dispatch.c.base_sha,
    dispatch.c.head_sha,
    dispatch.c.state,
    dispatch.c.conclusion,
    dispatch.c.code,
    dispatch.c.summary,
    dispatch.c.error,
    dispatch.c.created_at,
    dispatch.c.selected_at,
    dispatch.c.started_at,
    dispatch.c.first_failed_at,
    dispatch.c.ran_at,
    dispatch.c.closed_at,
)

SHARD_COLUMNS = (
    shard.c.id,
    shard.c.dispatch_id,
    shard.c.side,
    shard.c.index,
    shard.c.queue,
    shard.c.state,
    shard.c.worker,
    shard.c.est_seconds,
    shard.c.attempts,
    shard.c.fence,
    shard.c.lease_until,
    shard.c.created_at,
    shard.c.started_at,
    shard.c.finished_at,
    shard.c.error,
)

JOB_COLUMNS = (
    job.c.id,
    job.c.dispatch_id,
    job.c.workflow,
    job.c.name,
    job.c.run_id,
    job.c.attempt,
    job.c.status,
    job.c.conclusion,
    job.c.url,
    job.c.queued_at,
    job.c.started_at,
    job.c.completed_at,
    job.c.results,
    job.c.artifact_url,
    job.c.triage,
)


def holds(now: float) -> ColumnElement[bool]:
    """Whether a note of the quarantine counts: neither past its day nor ended before it."""
    return (quarantine.c.until > now) & quarantine.c.ended_at.is_(None)


def plain(row: AnyRow) -> dict[str, Any]:
    return dict(row._mapping)


def plain_all(rows: Iterable[AnyRow]) -> list[dict[str, Any]]:
    return [plain(row) for row in rows]


def brief(row: AnyRow, base_url: str) -> dict[str, Any]:
    """A dispatch as lists show it, with the address of its page."""
    return {**plain(row), "url": f"{base_url}/run/{row.id}"}


EFFECT = (
    outbox.c.id,
    outbox.c.kind,
    outbox.c.key,
    outbox.c.dispatch_id,
    outbox.c.target,
    outbox.c.state,
    outbox.c.attempts,
    outbox.c.ambiguous,
    outbox.c.last_status,
    outbox.c.last_error,
    outbox.c.created_at,
    outbox.c.due_at,
    outbox.c.sent_at,
)
"""An outbox row without its payload, which may be large and is nobody's to read."""


def counts_of(conn: Connection, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """A dispatch: tests planned (None before selection), head variants done, and how many had which outcome."""
    found: dict[str, dict[str, Any]] = {
        id: {"planned": None, "left_out": None, "variants_done": 0, "failing": 0, "outcomes": {}} for id in ids
    }
    if not ids:
        return found
    for row in conn.execute(select(plan.c.dispatch_id, plan.c.counts).where(plan.c.dispatch_id.in_(ids))):
        found[row.dispatch_id]["planned"] = row.counts.get("planned")
        found[row.dispatch_id]["left_out"] = row.counts.get("left_out")
    for row in conn.execute(
        select(result.c.dispatch_id, result.c.outcome, func.count().label("n"))
        .where(result.c.dispatch_id.in_(ids), result.c.side == "head")
        .group_by(result.c.dispatch_id, result.c.outcome)
    ):
        entry = found[row.dispatch_id]
        entry["outcomes"][row.outcome] = row.n
        entry["variants_done"] += row.n
        entry["failing"] += row.n if row.outcome in FAILING else 0
    return found


def shards_of(conn: Connection, ids: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """At most SHARDS_SHOWN shards a dispatch: head before base, in order, with their tests and what is done of them."""
    found: dict[str, list[dict[str, Any]]] = {id: [] for id in ids}
    for id in ids:
        rows = conn.execute(
            select(*SHARD_COLUMNS, func.json_array_length(shard.c.spec["tests"]).label("tests"))
            .where(shard.c.dispatch_id == id)
            .order_by(shard.c.side.desc(), shard.c.index)
            .limit(SHARDS_SHOWN)
        ).all()
        if not rows:
            continue
        done = {
            row.shard_id: row
            for row in conn.execute(
                select(
                    result.c.shard_id,
                    func.count().label("variants"),
                    func.count(sql_distinct(result.c.test)).label("tests"),
                )
                .where(result.c.shard_id.in_([row.id for row in rows]))
                .group_by(result.c.shard_id)
            )
        }
        logs = shard_logs.sizes(conn, [row.id for row in rows])
        for row in rows:
            counted = done.get(row.id)
            found[id].append(
                {
                    **plain(row),
                    "tests": row.tests or 0,
                    "tests_started": counted.tests if counted else 0,
                    "variants_done": counted.variants if counted else 0,
                    "log_bytes": logs.get(row.id, 0),
                }
            )
    return found


def jobs_of(conn: Connection, ids: Sequence[str], limit: int = 200) -> dict[str, list[dict[str, Any]]]:
    """The jobs that a downstream's own CI reported, newest attempt first."""
    found: dict[str, list[dict[str, Any]]] = {id: [] for id in ids}
    for id in ids:
        rows = conn.execute(
            select(*JOB_COLUMNS)
            .where(job.c.dispatch_id == id)
            .order_by(job.c.workflow, job.c.name, job.c.attempt.desc())
            .limit(limit)
        )
        found[id] = plain_all(rows)
    return found
