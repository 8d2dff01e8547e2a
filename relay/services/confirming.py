"""The runs that a verdict asks for (selector.verify.again), as shards: the base's results, what a worker's environment
spoilt, and suspects once more, alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import structlog
from sqlalchemy import Connection, Row, update

from relay.services import queueing
from relay.settings import Settings
from relay.store import shards, workers
from relay.store.schema import dispatch
from selector.model import Side, VariantResult
from selector.verify import FlakeRule, Step

log = structlog.get_logger(__name__)
FIXED_S = 1.0
"""Seconds that a shard costs beside its variants."""

Spec = dict[str, Any]


def labs_of(conn: Connection, names: Iterable[str]) -> dict[str, str]:
    """worker -> the lab it stands in; only those that name one."""
    found = workers.named(conn, set(names))
    return {row.name: str(row.info["lab"]) for row in found if row.info.get("lab")}


def add(
    conn: Connection,
    settings: Settings,
    run: Row[Any],
    step: Step,
    head: Sequence[VariantResult],
    rows: Sequence[Row[Any]],
    now: float,
) -> bool:
    """Moves a run from ``verifying`` to ``confirming`` with the shards of ``step``. False: it was moved meanwhile."""
    moved = conn.execute(
        update(dispatch)
        .where(dispatch.c.id == run.id, dispatch.c.state == "verifying")
        .values(state="confirming", claim=None, due_at=None, tries=0, error=None)
    )
    if not moved.rowcount:
        return False
    device = run.device or settings.device
    labs = labs_of(conn, [row.worker for row in rows if row.worker])
    alive = {str(w.info["lab"]) for w in workers.alive(conn, device, now) if w.info.get("lab")}
    made = _Specs(run, step, {r.key: r for r in head}, rows, labs)
    for side, specs in (
        (Side.BASE, [*made.base(), *made.imports()]),
        (Side.AGAIN, [*made.elsewhere(), *made.again(), *made.second_opinions(sorted(alive))]),
        (Side.BASE_AGAIN, made.base_again()),
    ):
        wire = list(specs)
        if wire:
            queue = queueing.queue_of(conn, device, wire[0]["runtime"], now)
            shards.add(conn, dispatch_id=run.id, side=side.value, queue=queue, specs=wire, now=now)
    log.info(
        "more runs for a verdict",
        dispatch=run.id,
        round=step.round,
        base=len(step.base) + len(step.base_tests),
        elsewhere=len(step.elsewhere),
        again=len(step.again),
    )
    return True


def redo(conn: Connection, settings: Settings, run: Row[Any], rows: Sequence[Row[Any]], now: float) -> bool:
    """Shards of the head that a worker could not run, once more on another one. False: there is none, or the run was
    moved meanwhile. One that took its workers down is not given to more of them."""
    if any(row.spec.get("redo_of") for row in rows):
        return False
    broken = [r for r in rows if r.side == Side.HEAD.value and r.state == "failed" and r.fence < shards.MAX_LEASES]
    if not broken:
        return False
    moved = conn.execute(
        update(dispatch)
        .where(dispatch.c.id == run.id, dispatch.c.state == "verifying")
        .values(state="confirming", claim=None, due_at=None, tries=0, error=None)
    )
    if not moved.rowcount:
        return False
    specs = [
        {**r.spec, "redo_of": r.id, "avoid": [r.worker] if r.worker else [], "est_seconds": r.est_seconds}
        for r in broken
    ]
    queue = queueing.queue_of(conn, run.device or settings.device, specs[0]["runtime"], now)
    shards.add(conn, dispatch_id=run.id, side=Side.HEAD.value, queue=queue, specs=specs, now=now)
    log.info("shards run again on another worker", dispatch=run.id, shards=[r.id for r in broken])
    return True


class _Specs:
    """The wire form of a step's shards: one for each shard of the head that has some of what is asked for, by test and
    not by class, since a class's tests may be spread over shards."""

    def __init__(
        self,
        run: Row[Any],
        step: Step,
        head: Mapping[str, VariantResult],
        rows: Sequence[Row[Any]],
        labs: Mapping[str, str],
    ) -> None:
        self.run, self.step, self.head, self.labs = run, step, head, labs
        self.rows = [row for row in rows if row.side == Side.HEAD.value]

    def base(self) -> Iterator[Spec]:
        return self._of(self.step.base, commit=self.run.compare_sha)

    def imports(self) -> Iterator[Spec]:
        left = {str(test) for test in self.step.base_tests}
        for row in self.rows:
            tests = [test for test in row.spec["tests"] if test in left]
            left -= set(tests)
            if tests:
                yield self._made(row, tests, None, row.est_seconds, commit=self.run.compare_sha)

    def elsewhere(self) -> Iterator[Spec]:
        return self._of(self.step.elsewhere, avoid=True)

    def again(self) -> Iterator[Spec]:
        return self._of(self.step.again, repeat=self.step.repeat)

    def base_again(self) -> Iterator[Spec]:
        return self._of(self.step.again, commit=self.run.compare_sha, repeat=self.step.repeat)

    def second_opinions(self, alive: Sequence[str]) -> Iterator[Spec]:
        """Of another lab, where there is one, in the first round of re-runs: labs may disagree."""
        if self.step.round != 2:
            return
        for spec in self._of(self.step.again, repeat=FlakeRule().first):
            other = next((lab for lab in alive if lab != spec.get("lab")), None)
            if spec.get("lab") and other:
                yield {**spec, "lab": other}

    def _of(self, keys: Sequence[str], *, avoid: bool = False, **over: Any) -> Iterator[Spec]:
        wanted: dict[str, list[str]] = {}
        for key in keys:
            wanted.setdefault(str(self.head[key].test), []).append(key)
        for row in self.rows:
            tests = [test for test in row.spec["tests"] if test in wanted]
            if not tests:
                continue
            variants = sorted(key for test in tests for key in wanted.pop(test))
            seconds = sum(max(self.head[key].seconds, 0.05) for key in variants) * over.get("repeat", 1) + FIXED_S
            more = {"avoid": [row.worker]} if avoid and row.worker else {}
            yield self._made(row, tests, variants, round(seconds, 3), **over, **more)

    def _made(
        self, row: Row[Any], tests: Sequence[str], variants: Sequence[str] | None, seconds: float, **over: Any
    ) -> Spec:
        # both sides in one lab, or nobody could say whether the change or the lab makes the difference
        lab = self.labs.get(row.worker or "")
        place = {"lab": lab} if lab and "avoid" not in over else {}
        found = {"tests": list(tests), "variants": variants, "round": self.step.round, "est_seconds": seconds}
        return {**row.spec, **found, **place, **over}
