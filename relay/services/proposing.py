"""What trunk's results and the configs themselves propose, kept as rows with their evidence until a person decides."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import structlog
from sqlalchemy import Connection, Engine, select, update

from relay.services.device_configs import load_device
from relay.settings import Settings
from relay.store import trunk
from relay.store.schema import dispatch, proposal, result, shard
from relay.store.upsert import insert_once
from selector.configs import lint
from selector.model import Mode, Outcome, Side, TestId, VariantResult
from selector.plan.proposals import Proposal, propose, stale
from selector.plan.standing import Run

log = structlog.get_logger(__name__)
DAYS = 30.0
ROWS = 50_000
CHUNK = 400
ALL = ""
AGENT = "agent"
"""the kind of what a model proposes (relay.services.explaining)"""


def refresh(engine: Engine, settings: Settings, now: float) -> dict[str, int]:
    """Looks at the last month of trunk and at the configs; new proposals are opened, those whose reason is gone are
    closed, and what a person dismissed stays dismissed. -> how many of each."""
    device = load_device(settings.configs_dir)
    today = datetime.fromtimestamp(now, UTC).date()
    problems = lint(device.texts, today=today)
    with engine.begin() as conn:
        found = propose(runs_of(conn, settings.device, now), device.configs, today).proposals + stale(problems)
        return keep(conn, settings.device, found, now)


def runs_of(
    conn: Connection, device: str, now: float, tests: Sequence[TestId] | None = None
) -> dict[TestId, list[Run]]:
    """Trunk's runs of the last month by test, newest first: one a dispatch. ``tests``: of these alone, a few hundred at
    most."""
    only = [result.c.test.in_([str(test) for test in tests])] if tests is not None else []
    rows = conn.execute(
        select(result, dispatch.c.compare_sha)
        .join(dispatch, dispatch.c.id == result.c.dispatch_id)
        .where(
            dispatch.c.device == device,
            dispatch.c.compare_sha.is_not(None),
            trunk.is_trunk(),
            result.c.side.in_(trunk.SIDES),
            result.c.recorded_at > now - DAYS * 86400.0,
            *only,
        )
        .order_by(result.c.recorded_at.desc(), result.c.id.desc())
        .limit(ROWS)
    )
    found: dict[TestId, dict[tuple[str, str], list[VariantResult]]] = defaultdict(lambda: defaultdict(list))
    ran_in: dict[tuple[TestId, str, str], set[str]] = defaultdict(set)
    for row in rows:
        test = TestId.parse(row.test)
        ran_in[test, row.dispatch_id, row.compare_sha].add(row.shard_id)
        found[test][row.dispatch_id, row.compare_sha].append(
            VariantResult(
                test, row.variant, Outcome(row.outcome), Mode(row.mode), Side.BASE, op=row.op, dtype=row.dtype,
                message=row.message, log_fault=row.log_fault,
            )
        )  # fmt: skip
    limited = _limited(conn, set[str]().union(*ran_in.values()))

    def full(test: TestId, run: str, sha: str) -> bool:
        return any(limited.get(one, frozenset()).isdisjoint((ALL, str(test))) for one in ran_in[test, run, sha])

    return {
        test: [Run(sha, seen, full(test, run, sha)) for (run, sha), seen in by_run.items()]
        for test, by_run in found.items()
    }


def _limited(conn: Connection, shards: set[str]) -> dict[str, frozenset[str]]:
    """Shards that were to run some variants only: of these tests, or (ALL) of every test."""
    found = {}
    names = sorted(shards)
    for start in range(0, len(names), CHUNK):
        some = names[start : start + CHUNK]
        query = select(shard.c.id, shard.c.spec["variants"].label("variants"), shard.c.spec["ops"].label("ops"))
        for row in conn.execute(query.where(shard.c.id.in_(some))):
            tests = {ALL} if row.variants is not None else set(row.ops or ())
            if tests:
                found[row.id] = frozenset(tests)
    return found


def keep(
    conn: Connection, device: str, found: Sequence[Proposal], now: float, *, kinds: Sequence[str] = ()
) -> dict[str, int]:
    """Opens what is new and closes what is gone: of ``kinds``, else of every kind but a model's, which looks apart."""
    keys = set()
    opened = 0
    for one in found:
        key = hashlib.sha256("\0".join((device, one.kind, one.subject)).encode()).hexdigest()
        keys.add(key)
        told: dict[str, Any] = {
            "reason": one.reason,
            "evidence": list(one.evidence),
            "issue": one.edit.issue if one.edit else "",
            "until": one.until,
            "updated_at": now,
        }
        first = {"key": key, "device": device, "kind": one.kind, "subject": one.subject, "created_at": now}
        if insert_once(conn, proposal, {**first, **told, "state": "open"}):
            opened += 1
            continue
        conn.execute(update(proposal).where(proposal.c.key == key, proposal.c.state == "open").values(**told))
        # it was gone, and its reason is back
        conn.execute(
            update(proposal).where(proposal.c.key == key, proposal.c.state == "gone").values(**told, state="open")
        )
    closed = conn.execute(
        update(proposal)
        .where(
            proposal.c.device == device,
            proposal.c.state == "open",
            proposal.c.key.not_in(keys),
            proposal.c.kind.in_(kinds) if kinds else proposal.c.kind != AGENT,
        )
        .values(state="gone", updated_at=now)
    )
    return {"open": len(keys), "new": opened, "gone": closed.rowcount}
