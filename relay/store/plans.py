"""A run's plan and the decisions behind it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, literal, select

from relay.store.schema import decision, plan
from selector.model import (
    Decision,
    Evidence,
    LeftOut,
    Mode,
    NotExercised,
    PlannedTest,
    RunPlan,
    Runtime,
    RuntimeKind,
    Selection,
    ShardSpec,
    Stage,
    TestId,
)
from selector.plan.codes import DEFAULT


def store(
    conn: Connection,
    dispatch_id: str,
    selection: Selection,
    now: float,
    *,
    exploration: dict[str, Any] | None = None,
    shadow: dict[str, Any] | None = None,
) -> None:
    """Stores what the first three stages found, what the run explores besides and what rankers on trial would have run;
    replaces what an earlier, interrupted selection left."""
    conn.execute(delete(plan).where(plan.c.dispatch_id == dispatch_id))
    conn.execute(delete(decision).where(decision.c.dispatch_id == dispatch_id, decision.c.stage != Stage.VERIFY.value))
    run = selection.plan
    conn.execute(
        insert(plan).values(
            dispatch_id=dispatch_id,
            runtime={"kind": run.runtime.kind.value, "torch": run.runtime.torch, "files": list(run.runtime.files)},
            partial=run.partial,
            tests=[
                {
                    "test": str(t.test),
                    "mode": t.mode.value,
                    "priority": t.priority,
                    "est_seconds": t.est_seconds,
                    "codes": list(t.codes),
                    "config": t.config,
                    "ops": list(t.ops),
                    "mode_code": t.mode_code,
                }
                for t in run.tests
            ],
            left_out=[{"test": str(t.test), "est_seconds": t.est_seconds, "reason": t.reason} for t in run.left_out],
            not_exercised=[asdict(n) for n in run.not_exercised],
            counts=selection.counts,
            timings=selection.timings,
            warnings=list(selection.warnings),
            exploration=exploration,
            shadow=shadow,
            created_at=now,
        )
    )
    add_decisions(conn, dispatch_id, selection.decisions)


def add_decisions(conn: Connection, dispatch_id: str, decisions: Iterable[Decision]) -> None:
    rows = [
        {
            "dispatch_id": dispatch_id,
            "stage": d.stage.value,
            "subject": d.subject,
            "verdict": d.verdict,
            "code": d.code,
            "reason": d.reason,
            "evidence": [asdict(e) for e in d.evidence],
            "confidence": d.confidence,
            "by": d.by,
        }
        for d in decisions
    ]
    if rows:
        conn.execute(insert(decision), rows)


def load(conn: Connection, dispatch_id: str) -> RunPlan | None:
    """The plan of a run without its shards (those are rows of their own), or None before selection."""
    row = conn.execute(select(plan).where(plan.c.dispatch_id == dispatch_id)).one_or_none()
    if row is None:
        return None
    return RunPlan(
        runtime=Runtime(RuntimeKind(row.runtime["kind"]), row.runtime["torch"], tuple(row.runtime["files"])),
        tests=tuple(
            PlannedTest(
                TestId.parse(t["test"]),
                Mode(t["mode"]),
                t["priority"],
                t["est_seconds"],
                tuple(t["codes"]),
                t["config"],
                tuple(t.get("ops", ())),
                t.get("mode_code", DEFAULT),
            )
            for t in row.tests
        ),
        shards=tuple[ShardSpec, ...](),
        partial=row.partial,
        left_out=tuple(LeftOut(TestId.parse(t["test"]), t["est_seconds"], t["reason"]) for t in row.left_out),
        not_exercised=tuple(NotExercised(**n) for n in row.not_exercised),
    )


def row(conn: Connection, dispatch_id: str) -> Row[Any] | None:
    return conn.execute(select(plan).where(plan.c.dispatch_id == dispatch_id)).one_or_none()


def decisions_of(conn: Connection, dispatch_id: str, stages: Sequence[Stage]) -> list[Decision]:
    rows = conn.execute(
        select(decision)
        .where(decision.c.dispatch_id == dispatch_id, decision.c.stage.in_([s.value for s in stages]))
        .order_by(decision.c.id)
    )
    return [
        Decision(
            Stage(r.stage),
            r.subject,
            r.verdict,
            r.code,
            r.reason,
            tuple(Evidence(**e) for e in r.evidence),
            r.confidence,
            r.by,
        )
        for r in rows
    ]


def reasons(conn: Connection, dispatch_id: str, code: str) -> tuple[str, ...]:
    """What the run's decisions of one code say."""
    rows = conn.execute(
        select(decision.c.reason)
        .where(decision.c.dispatch_id == dispatch_id, decision.c.code == code)
        .order_by(decision.c.id)
    )
    return tuple(rows.scalars())


def exists(conn: Connection, dispatch_id: str) -> bool:
    """Whether a run came to a plan."""
    return conn.execute(select(plan.c.dispatch_id).where(plan.c.dispatch_id == dispatch_id)).first() is not None


def copy(conn: Connection, old: str, new: str, now: float) -> None:
    """Gives the run ``new`` the plan of ``old``, and the decisions that led to it."""
    told = [column for column in plan.c if column.name not in ("dispatch_id", "created_at")]
    source = select(literal(new), literal(now), *told).where(plan.c.dispatch_id == old)
    conn.execute(insert(plan).from_select(["dispatch_id", "created_at", *(column.name for column in told)], source))
    said = [column for column in decision.c if column.name not in ("id", "dispatch_id")]
    why = select(literal(new), *said).where(decision.c.dispatch_id == old, decision.c.stage != Stage.VERIFY.value)
    conn.execute(insert(decision).from_select(["dispatch_id", *(column.name for column in said)], why))
