"""The first three stages joined: a change goes in, a plan with its reasons comes out. See docs/selector.md."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from selector.agents import RulesAgent, TriageAgent
from selector.configs import Capability, ReuseConfigs
from selector.discover import Hints, Inventory, InventoryCache, Shelf, discover, has_tests, take
from selector.model import Change, NotExercised, OpDatabase, RunPlan, Selection, TestId, Tree
from selector.plan import Budget, History, WorkerOffer, plan
from selector.triage import triage
from selector.triage.engagement import Uses
from selector.triage.environment import Lifts

NO_TESTS = NotExercised("test/", "this change leaves no test/ folder: there is no test to run")


@dataclass(frozen=True, slots=True)
class SelectionRequest:
    """Everything a selection depends on. ``opdb``: of the torch that will run; ``offers``: what live workers can run;
    ``engaged_before``: kernels that trusted runs counted, by test; ``hints``: what was measured elsewhere; ``shelf``:
    keeps the inventory for the next selection of this process; ``clock``: seconds, for the timings only."""

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
    hints: Hints = field(default_factory=Hints)
    shelf: Shelf | None = None
    clock: Callable[[], float] = time.perf_counter


def select(request: SelectionRequest) -> Selection:
    """Runs discover, triage and plan. The same request gives the same selection but for its timings.

    A change that takes the last test away selects nothing, and the plan says why. Raises TreeError when neither side
    has tests (it is no upstream tree), NoWorker when no offer can run anything.
    """
    now = request.clock
    began = now()
    emptied = not has_tests(request.head) and has_tests(request.base)
    inventory = Inventory({}, {}) if emptied else _taken(request)
    known = now()
    found = discover(
        request.base, request.head, request.change, request.opdb, request.cache, inventory, hints=request.hints
    )
    reached = now()
    sorted_out = triage(
        found.impacts,
        found.inventory,
        request.capability,
        request.opdb,
        request.engaged_before,
        agent=request.agent,
        lifts=lambda test: lifts_of(test, request.configs),
        uses=Uses(request.head.read, request.head.paths(), request.cache),
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
    run_plan = _not_exercised(run_plan, (*([NO_TESTS] if emptied else []), *found.not_exercised))
    done = now()
    variants = {relevant.test: relevant.est_variants for relevant in sorted_out.relevant}
    counts = {
        "files": len(request.change.files),
        "tests": inventory.count,
        "impacted": len(found.impacts),
        "native_files": found.native_files,
        "native_impacted": found.native_impacted,
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
        (*found.warnings, *([f"{NO_TESTS.path}: {NO_TESTS.reason}"] if emptied else [])),
    )


def _taken(request: SelectionRequest) -> Inventory:
    known = request.shelf.latest if request.shelf is not None else None
    inventory = take(request.head, request.cache, known)
    if request.shelf is not None:
        request.shelf.latest = inventory
    return inventory


def lifts_of(test: TestId, configs: ReuseConfigs) -> Lifts:
    """What the device's configs lift of upstream's limits."""
    devices = configs.bypasses(test) | configs.opens(test.file, test.cls)
    return Lifts(devices, configs.dtypes(test).include)


def _not_exercised(run_plan: RunPlan, more: Sequence[NotExercised]) -> RunPlan:
    """The plan with what stage 1 cannot vouch for; the runtime's reason for a path comes first."""
    known = {item.path for item in run_plan.not_exercised}
    return replace(
        run_plan, not_exercised=(*run_plan.not_exercised, *(item for item in more if item.path not in known))
    )
