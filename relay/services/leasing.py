"""Leases as workers see them: take, keep, report, end; and the reaper that takes back what a lost worker held."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import structlog
from prometheus_client import Histogram
from sqlalchemy import Connection, Engine, Row, func, select, update

from relay.artifacts import artifacts
from relay.errors import BadRequest, LeaseLost, NotFound
from relay.protocol import WORKER_API
from relay.services import log_tails, placing, run_job
from relay.settings import Settings
from relay.steps import step
from relay.store import dispatches, results, setups, shard_logs, shards
from relay.store.db import reading
from relay.store.schema import dispatch
from relay.store.trunk import TRUNK_EVENT
from selector.model import FAILED, Side

FIRST_FAILURE = Histogram(
    "relay_first_failure_seconds",
    "From the first lease of a run to the report of its first failure, of runs that have one.",
    buckets=(1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800),
)
log = structlog.get_logger(__name__)


def take(engine: Engine, settings: Settings, shard_id: str, worker: str, now: float) -> dict[str, Any]:
    """Leases a shard to ``worker``. Returns the body of docs/worker-api.md. NotFound, Conflict."""
    with engine.begin() as conn:
        elsewhere = placing.misplaced(conn, shard_id, worker, now)
    if elsewhere is not None:
        raise elsewhere
    with engine.begin() as conn:
        row, token = shards.lease(conn, shard_id, worker=worker, now=now, lease_s=settings.lease_s)
        run_job.started(conn, settings, row.dispatch_id, now)
        done = results.done_keys(conn, shard_id)
        spec = setups.whole(conn, row.spec)
        about = select(dispatch.c.author_trusted, dispatch.c.event).where(dispatch.c.id == row.dispatch_id)
        run = conn.execute(about).one()
    follow = follows(row, run.event)
    spec.pop("follow", None)
    log.info("shard leased", shard=shard_id, worker=worker, fence=row.fence, done=len(done))
    return {
        "protocol": WORKER_API,
        "token": token,
        "fence": row.fence,
        "expires_in_s": settings.lease_s,
        "heartbeat_s": settings.heartbeat_s,
        # what an earlier lease has run was not followed by this one
        "done": [] if follow else done,
        "shard": {
            **spec,
            "id": row.id,
            "dispatch_id": row.dispatch_id,
            "side": row.side,
            "trusted": run.author_trusted,
            **({"follow": True} if follow else {}),
            "limits": {
                "variant_s": settings.variant_timeout_s,
                "shard_s": settings.shard_timeout_s,
                "memory_mb": settings.memory_mb,
            },
        },
    }


def follows(row: Row[Any], event: str) -> bool:
    """Whether a shard's tests are followed: only those of the relay's own runs of trunk, for a table of what a change's
    code says that it ran would be its author's. ``event``: of its run."""
    return bool(row.spec.get("follow")) and row.side == Side.TRACE.value and event == TRUNK_EVENT


def event_of(engine: Engine, row: Row[Any]) -> str:
    """What a shard's run is for."""
    with reading(engine) as conn:
        return str(conn.execute(select(dispatch.c.event).where(dispatch.c.id == row.dispatch_id)).scalar_one())


def beat(engine: Engine, settings: Settings, shard_id: str, token: str, now: float) -> dict[str, Any]:
    """Keeps a lease. ``cancel`` tells the worker that nobody wants the run any more. LeaseLost."""
    with engine.begin() as conn:
        row = shards.held(conn, shard_id, token)
        shards.extend(conn, shard_id, now=now, lease_s=settings.lease_s)
        state = conn.execute(select(dispatch.c.state).where(dispatch.c.id == row.dispatch_id)).scalar_one()
    return {"expires_in_s": settings.lease_s, "cancel": state in shards.OVER}


def holder(engine: Engine, shard_id: str, token: str) -> Row[Any]:
    """The shard behind a lease token. LeaseLost."""
    with reading(engine) as conn:
        return shards.held(conn, shard_id, token, write=False)


def compared_with(engine: Engine, shard: Row[Any]) -> str | None:
    """The commit that the shard's run compares the change with; None where it is not known."""
    with reading(engine) as conn:
        found = conn.execute(select(dispatch.c.compare_sha).where(dispatch.c.id == shard.dispatch_id)).scalar_one()
    return str(found) if found else None


def record(
    engine: Engine, settings: Settings, shard_id: str, token: str, lines: Sequence[dict[str, Any]], now: float
) -> dict[str, int]:
    """Stores results under a lease, which they keep alive too. LeaseLost; BadRequest for one of a test that the shard
    does not have."""
    tests = set(holder(engine, shard_id, token).spec["tests"])
    for number, line in enumerate(lines, 1):
        if line["test"] not in tests:
            raise BadRequest(f"result {number}: test: {line['test'][:200]} is not one of this shard's tests")
    # before the transaction: nobody waits behind a slow store
    told, ends = log_tails.keep(artifacts(settings), shard_id, lines)
    failed = any(line["outcome"] in FAILED for line in lines)
    with engine.begin() as conn:
        row = _held_with_run(conn, shard_id, token) if failed else shards.held(conn, shard_id, token)
        new = results.record(conn, row, told, now)
        if failed and row.side == Side.HEAD.value:
            _first_failure(conn, row.dispatch_id, now)
        if ends is not None:
            shard_logs.add_tails(conn, shard_id, ends, now)
        shards.extend(conn, shard_id, now=now, lease_s=settings.lease_s)
    return {"accepted": new, "known": len(lines) - new}


def complete(
    engine: Engine,
    settings: Settings,
    shard_id: str,
    token: str,
    *,
    status: str,
    error: str | None,
    report: dict[str, Any],
    now: float,
) -> None:
    """Ends a shard under its lease; the run's last one makes the verdict due. LeaseLost."""
    with engine.begin() as conn:
        row = _held_with_run(conn, shard_id, token)
        shards.finish(conn, shard_id, state=status, report=report, error=error, now=now)
        verify_when_all_ended(conn, row.dispatch_id, now)
        delivery = dispatches.deliveries_of(conn, [row.dispatch_id]).get(row.dispatch_id)
    about = {"shard": shard_id, "worker": row.worker, "side": row.side}
    with step("shard", delivery=delivery, run=row.dispatch_id, began=row.started_at, **about):
        log.info("shard ended", status=status, error=error)


def release(engine: Engine, shard_id: str, token: str, now: float) -> None:
    """A worker that stops gives its shard back: another may have it at once, and goes on where it was. LeaseLost."""
    with engine.begin() as conn:
        row = _held_with_run(conn, shard_id, token)
        state = shards.hand_back(conn, row, now)
        if state == "failed":
            verify_when_all_ended(conn, row.dispatch_id, now)
    log.info("shard handed back", shard=shard_id, worker=row.worker, state=state)


def _first_failure(conn: Connection, dispatch_id: str, now: float) -> None:
    """Notes when a run's first failure was reported; the run is locked. A later one changes nothing."""
    run = conn.execute(
        select(dispatch.c.started_at, dispatch.c.first_failed_at).where(dispatch.c.id == dispatch_id)
    ).one()
    if run.first_failed_at is None:
        conn.execute(update(dispatch).where(dispatch.c.id == dispatch_id).values(first_failed_at=now))
        FIRST_FAILURE.observe(max(0.0, now - (run.started_at or now)))


def _held_with_run(conn: Connection, shard_id: str, token: str) -> Row[Any]:
    """The shard under its lease, its run locked first. LeaseLost, also for a shard that is gone."""
    try:
        shards.lock_run(conn, shard_id)
    except NotFound as exc:
        raise LeaseLost(exc.message, exc.hint) from exc
    return shards.held(conn, shard_id, token)


def verify_when_all_ended(conn: Connection, dispatch_id: str, now: float) -> None:
    """A run whose shards have all ended is due for its verdict. Counted in the database, in the transaction that ends
    the last shard and has locked the run (shards.lock_run): two shards ending at once make one verdict."""
    if shards.open_count(conn, dispatch_id):
        return
    conn.execute(
        update(dispatch)
        .where(dispatch.c.id == dispatch_id, dispatch.c.state.in_(("running", "confirming")))
        .values(state="verifying", due_at=now, attempts=0, tries=0, ran_at=func.coalesce(dispatch.c.ran_at, now))
    )


def reap(engine: Engine, settings: Settings, now: float) -> None:
    """Takes back the shards of workers whose heartbeats stopped."""
    with reading(engine) as conn:
        lost = shards.lost(conn, now)
    for shard_id in lost:  # usually none, and then no write lock is taken
        with engine.begin() as conn:
            state = shards.take_back(conn, shard_id, now)
            if state == "failed":
                verify_when_all_ended(conn, shards.get(conn, shard_id).dispatch_id, now)
        if state == "queued":
            log.warning("worker lost: shard queued again", shard=shard_id)
        elif state == "failed":
            log.error("worker lost: shard given up", shard=shard_id)
