"""Everything a verdict is drawn from, read from the database at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row

from relay.services.confirming import labs_of
from relay.settings import Settings
from relay.store import bisections, plans, results, shards, trunk
from selector.model import Decision, RunPlan, Runtime, RuntimeKind, Side, Stage, VariantResult
from selector.verify import Again, Judge, ShardProblem, Step, Trusted, fails, next_step, report_problems

EMPTY_PLAN = RunPlan(Runtime(RuntimeKind.TESTS_ONLY, ""), (), ())


@dataclass(frozen=True, slots=True)
class Seen:
    """Results of both sides, what the shards reported besides, the plan, and what is known of trunk. ``rounds``: how
    many rounds of further runs were asked for; ``rows`` the run's shards."""

    head: list[VariantResult]
    base: list[VariantResult]
    again: Again
    problems: tuple[ShardProblem, ...]
    plan: RunPlan
    decisions: list[Decision]
    trusted: Trusted
    rows: Sequence[Row[Any]]
    rounds: int
    followed: int = 0
    """Results of tests that were followed, on a commit of trunk."""

    def step(self) -> Step | None:
        """The runs that the verdict still needs."""
        judge = Judge({}, self.again.base(self.base), self.problems)
        return next_step(self.head, self.base, self.again, self.problems, self.plan, judge, self.rounds)


def gather(conn: Connection, settings: Settings, run: Row[Any], now: float) -> Seen:
    """What is known about ``run`` now."""
    device = run.device or settings.device
    rows = shards.of_dispatch(conn, run.id)
    labs = labs_of(conn, [row.worker for row in rows if row.worker])
    sides = {side: list(results.of_side(conn, run.id, side, labs)) for side in Side}
    head, base = sides[Side.HEAD], sides[Side.BASE]
    failing = {r.key: r.test for r in head if fails(r)}
    if failing and run.compare_sha:
        base += _known(conn, device, run, rows, failing, base)
    return Seen(
        head,
        base,
        Again((*sides[Side.AGAIN], *sides[Side.BASE_AGAIN])),
        tuple(_problems(rows)),
        plans.load(conn, run.id) or EMPTY_PLAN,
        plans.decisions_of(conn, run.id, (Stage.DISCOVER, Stage.TRIAGE)),
        Trusted(
            trunk.samples(conn, device, failing, without=run.id) if failing else {},
            bisections.first_bad(conn, device, failing) if failing else {},
            trunk.quarantined(conn, device, now) if failing else (),
            now,
        ),
        rows,
        max((int(row.spec.get("round") or 0) for row in rows), default=0),
        len(sides[Side.TRACE]),
    )


def _known(
    conn: Connection,
    device: str,
    run: Row[Any],
    rows: Sequence[Row[Any]],
    failing: dict[str, Any],
    base: Sequence[VariantResult],
) -> list[VariantResult]:
    """Results of the base that other runs have left, under the same torch and configs: they need not be run again."""
    have = {r.key for r in base}
    spec = next((row.spec for row in rows if row.side == Side.HEAD.value), None)
    missing = {key: test for key, test in failing.items() if key not in have}
    if spec is None or not missing:
        return []
    return list(trunk.at_commit(conn, device, run.compare_sha, missing, spec).values())


def _problems(rows: Iterable[Row[Any]]) -> Iterable[ShardProblem]:
    redone = {row.spec["redo_of"] for row in rows if row.spec.get("redo_of") and row.state == "done"}
    for row in rows:
        side = Side(row.side)
        if row.state == "failed" and row.id not in redone and not _given_up_with(row, rows):
            yield ShardProblem(row.id, side, "infrastructure", row.error or "the worker could not run it", "")
        yield from report_problems(row.id, side, row.report or {})


def _given_up_with(row: Row[Any], rows: Iterable[Row[Any]]) -> bool:
    """A shard that failed twice is told once: the second try stands for the first."""
    return any(other.spec.get("redo_of") == row.id and other.state == "failed" for other in rows)
