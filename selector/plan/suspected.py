"""Tests that an agent suspects, joined to a plan that the rules made: beside it, in room of their own, or in another
order of the very same tests. Nothing that the plan holds gives way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from selector.agents.port import SUSPECTED, Suspect
from selector.discover import Impact
from selector.discover.findings import IMPACT_CODES
from selector.model import Decision, RunPlan, Stage, TestId
from selector.plan.model import RelevantTest

RAISED = 0.5
"""weight that a suspected test has at least, when an order is made"""

Planner = Callable[[Sequence[RelevantTest], float | None], tuple[RunPlan, tuple[Decision, ...]]]
"""plans tests within seconds of wall time; None: within the run's own budget"""


class SortedOut(Protocol):
    """What triage gives."""

    @property
    def relevant(self) -> tuple[RelevantTest, ...]: ...

    @property
    def decisions(self) -> tuple[Decision, ...]: ...


Sorter = Callable[[Sequence[Impact]], SortedOut]
"""triage by the rules alone"""


@dataclass(frozen=True, slots=True)
class Joined:
    """``decisions``: those of the plan as it was and of what was joined; ``added``: tests that run besides."""

    plan: RunPlan
    decisions: tuple[Decision, ...]
    added: tuple[TestId, ...] = ()
    relevant: tuple[RelevantTest, ...] = ()
    """what the rules know nothing of, and are not sure is not for the device"""


def join(
    made: tuple[RunPlan, tuple[Decision, ...]],
    suspects: Sequence[Suspect],
    relevant: Sequence[RelevantTest],
    impacted: Sequence[TestId],
    sort: Sorter,
    plan: Planner,
    room_s: float,
) -> Joined:
    """``made``: the rules' plan of ``relevant``; ``impacted``: every test that stage 1 found, those that triage dropped
    included; ``room_s``: seconds of each worker for tests that the plan does not hold."""
    run_plan, decisions = made
    if not suspects:
        return Joined(run_plan, decisions)
    by_test = {one.test: one for one in suspects}
    run_plan, decisions = _in_order(run_plan, decisions, relevant, set(by_test), plan)
    left = {one.test for one in run_plan.left_out}
    wanted = [one for one in relevant if one.test in left and one.test in by_test]
    known = set(impacted)
    strangers = [
        Impact(one.test, (SUSPECTED,), one.evidence, IMPACT_CODES[SUSPECTED])
        for one in suspects
        if one.test not in known
    ]
    told = [
        Decision(
            Stage.DISCOVER, str(i.test), "impacted", SUSPECTED, by_test[i.test].reason, i.evidence, i.weight, "model"
        )
        for i in strangers
    ]
    sorted_out = sort(strangers) if strangers else None
    kept = sorted_out.relevant if sorted_out is not None else ()
    told += sorted_out.decisions if sorted_out is not None else ()
    place = {one.test: at for at, one in enumerate(suspects)}
    extra = sorted((*wanted, *kept), key=lambda one: place[one.test])
    if not extra or room_s <= 0:
        return Joined(run_plan, (*decisions, *told))
    more, more_decisions = plan(extra, room_s)
    added = tuple(one.test for one in more.tests)
    shards = tuple(replace(one, index=len(run_plan.shards) + at) for at, one in enumerate(more.shards))
    left_out = tuple(one for one in run_plan.left_out if one.test not in set(added))
    joined = replace(
        run_plan,
        tests=(*run_plan.tests, *more.tests),
        shards=(*run_plan.shards, *shards),
        left_out=left_out,
        partial=bool(left_out),
    )
    told += [d for d in more_decisions if d.verdict == "planned" or d.subject not in {str(t) for t in left}]
    return Joined(joined, (*_without(decisions, added), *told), added, kept)


def _in_order(
    run_plan: RunPlan,
    decisions: tuple[Decision, ...],
    relevant: Sequence[RelevantTest],
    suspected: set[TestId],
    plan: Planner,
) -> tuple[RunPlan, tuple[Decision, ...]]:
    """The plan with suspected tests further in front, if it holds the same tests in that order as well."""
    if run_plan.partial or suspected.isdisjoint(one.test for one in run_plan.tests):
        return run_plan, decisions
    raised = [replace(r, weight=max(r.weight, RAISED)) if r.test in suspected else r for r in relevant]
    other, why = plan(raised, None)
    if {one.test for one in other.tests} != {one.test for one in run_plan.tests} or other.partial:
        return run_plan, decisions
    return replace(other, not_exercised=run_plan.not_exercised), why


def _without(decisions: Sequence[Decision], added: Sequence[TestId]) -> list[Decision]:
    """Not said any more: that a test which runs now was left out."""
    names = {str(test) for test in added}
    return [d for d in decisions if not (d.verdict == "left-out" and d.subject in names)]
