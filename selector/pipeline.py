"""The first three stages joined: a change goes in, a plan with its reasons comes out. See docs/selector.md."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from selector.agents import RulesAgent, TriageAgent
from selector.configs import Capability, ReuseConfigs
from selector.discover import InventoryCache, discover, take
from selector.model import Change, OpDatabase, Selection, TestId, Tree
from selector.plan import Budget, History, WorkerOffer, plan
from selector.triage import triage


@dataclass(frozen=True, slots=True)
class SelectionRequest:
    """Everything a selection depends on. ``opdb``: of the torch that will run; ``offers``: what live workers can run;
    ``engaged_before``: kernels that trusted runs counted, by test; ``clock``: seconds, for the timings only."""

    base: Tree
    head: Tree
    change: Change
    capability: Capability
    configs: ReuseConfigs
    opdb: OpDatabase | None
    offers: Sequence[WorkerOffer]
    budget: Budget
    cache: InventoryCache | None = None
    engaged_before: Mapping[TestId, int] = field(default_factory=dict)
    history: History | None = None
    agent: TriageAgent = field(default_factory=RulesAgent)
    clock: Callable[[], float] = time.perf_counter


def select(request: SelectionRequest) -> Selection:
    """Runs discover, triage and plan. The same request gives the same selection but for its timings.

    Raises TreeError when head has no tests, NoWorker when no offer can run anything.
    """
    now = request.clock
    began = now()
    inventory = take(request.head, request.cache)
    known = now()
    found = discover(request.base, request.head, request.change, request.opdb, request.cache, inventory)
    reached = now()
    sorted_out = triage(
        found.impacts, inventory, request.capability, request.opdb, request.engaged_before, agent=request.agent
    )
    judged = now()
    run_plan, planned = plan(
        sorted_out.relevant,
        request.change,
        request.capability,
        request.configs,
        request.offers,
        request.budget,
        request.history,
    )
    done = now()
    variants = {relevant.test: relevant.est_variants for relevant in sorted_out.relevant}
    counts = {
        "files": len(request.change.files),
        "tests": inventory.count,
        "impacted": len(found.impacts),
        **sorted_out.counts,
        "planned": len(run_plan.tests),
        "left_out": len(run_plan.left_out),
        "est_variants": sum(variants[item.test] for item in run_plan.tests),
    }
    timings = {
        "inventory": known - began,
        "discover": reached - known,
        "triage": judged - reached,
        "plan": done - judged,
    }
    return Selection(
        request.change,
        run_plan,
        (*found.decisions, *sorted_out.decisions, *planned),
        counts,
        {stage: round(seconds, 4) for stage, seconds in timings.items()},
        found.warnings,
    )
