"""The first three stages joined: a change goes in, a plan with its reasons comes out. See docs/selector.md."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from selector.agents import Agent, RulesAgent
from selector.agents.port import SUSPECTED, Suspect
from selector.configs import Capability, ReuseConfigs
from selector.discover import Discovery, Hints, Impact, Inventory, InventoryCache, Shelf, discover, has_tests, take
from selector.model import (
    Change,
    Decision,
    NotExercised,
    OnTrial,
    OpDatabase,
    RunPlan,
    Selection,
    Shadow,
    Stage,
    TestId,
    Tree,
)
from selector.plan import Budget, History, WorkerOffer, plan
from selector.plan.model import RelevantTest
from selector.plan.planner import OVER_BUDGET, rank
from selector.plan.ranking import Ranker
from selector.plan.shadow import orders
from selector.plan.suspected import Joined, join
from selector.plan.times import TestTimes
from selector.triage import Triage, triage
from selector.triage.engagement import Uses
from selector.triage.environment import Lifts
from selector.trials import Differences

NO_TESTS = NotExercised("test/", "this change leaves no test/ folder: there is no test to run")


@dataclass(frozen=True, slots=True)
class SelectionRequest:
    """Everything a selection depends on. ``opdb``: of the torch that will run; ``offers``: what live workers can run;
    ``engaged_before``: kernels that trusted runs counted, by test; ``hints``: what was measured elsewhere; ``shelf``:
    keeps the inventory for the next selection of this process; ``models``: agents on trial, whose answers nobody acts
    on; ``suspect_room_s``: seconds of each worker for tests that the agent suspects, beside the budget; ``rankers``:
    orders on trial beside the built-in ones; ``times``: of test files elsewhere, where the history knows none;
    ``clock``: seconds, for the timings only."""

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
    times: TestTimes | None = None
    agent: Agent = field(default_factory=RulesAgent)
    models: Sequence[Agent] = ()
    suspect_room_s: float = 0.0
    rankers: Mapping[str, Ranker] = field(default_factory=dict)
    hints: Hints = field(default_factory=Hints)
    shelf: Shelf | None = None
    clock: Callable[[], float] = time.perf_counter


@dataclass(frozen=True, slots=True)
class _Suspicions:
    """What agents suspect where stage 1 could not map something: the one in force, and those on trial by name."""

    in_force: Sequence[Suspect]
    on_trial: Mapping[str, Sequence[Suspect]]
    differences: Differences

    @classmethod
    def of(cls, request: SelectionRequest, found: Discovery) -> _Suspicions:
        differences = Differences(Stage.DISCOVER)
        if not found.widened:
            return cls((), {}, differences)
        told: dict[str, Sequence[Suspect]] = {}
        for model in request.models:
            with differences.watched(f"model:{model.name}"):
                told[model.name] = model.suspects(found, request.change, request.head)
        return cls(request.agent.suspects(found, request.change, request.head), told, differences)

    def beside(self, run_plan: RunPlan) -> tuple[OnTrial, ...]:
        """What models on trial would have put beside the plan."""
        planned = {one.test for one in run_plan.tests}
        for name, suspects in self.on_trial.items():
            for one in suspects:
                if one.test not in planned:
                    said = Decision(
                        Stage.DISCOVER, str(one.test), "impacted", SUSPECTED, one.reason, one.evidence, by=name
                    )
                    self.differences.otherwise(f"model:{name}", one.test, said, add=True)
        return self.differences.opinions()


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
    if request.times is not None:
        history = request.times.beside(
            request.history, lambda file: sum(1 for _ in inventory.tests(file)) if file in inventory.files else 0
        )
        request = replace(request, history=history)
    found = discover(
        request.base, request.head, request.change, request.opdb, request.cache, inventory, hints=request.hints
    )
    # before stage 2 may use up what an agent has: a suspect can find a regression, a drop only saves seconds
    suspicions = _Suspicions.of(request, found)
    reached = now()
    sort = partial(
        triage,
        inventory=found.inventory,
        capability=request.capability,
        opdb=request.opdb,
        engaged_before=request.engaged_before,
        agent=request.agent,
        lifts=lambda test: lifts_of(test, request.configs),
        uses=Uses(request.head.read, request.head.paths(), request.cache),
    )
    sorted_out = sort(found.impacts, models=request.models)
    judged = now()
    run_plan, planned = _planned(request, sorted_out.relevant)
    run_plan = _not_exercised(run_plan, (*([NO_TESTS] if emptied else []), *found.not_exercised))
    joined = _joined(request, suspicions.in_force, found, sorted_out, sort, run_plan, planned)
    run_plan, planned = joined.plan, joined.decisions
    ranked = rank(sorted_out.relevant, request.configs, request.capability, request.history)
    runs = {item.test for item in run_plan.tests}
    shadow = Shadow(
        orders(ranked, request.budget.capacity, more=request.rankers),
        {one.test: round(one.seconds, 3) for one in ranked},
        (*_would_reach(found, sort), *suspicions.beside(run_plan), *sorted_out.on_trial),
        {one.test: one.seen() for one in ranked if one.test in runs},
    )
    done = now()
    variants = {relevant.test: relevant.est_variants for relevant in (*sorted_out.relevant, *joined.relevant)}
    counts = {
        "files": len(request.change.files),
        "tests": inventory.count,
        "impacted": len(found.impacts),
        "native_files": found.native_files,
        "native_impacted": found.native_impacted,
        **sorted_out.counts,
        "planned": len(run_plan.tests),
        "left_out": len(run_plan.left_out),
        **({"suspected": len(joined.added)} if joined.added else {}),
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
        (
            *found.warnings,
            *([f"{NO_TESTS.path}: {NO_TESTS.reason}"] if emptied else []),
            *(one.reason for one in planned if one.code == OVER_BUDGET),
        ),
        shadow,
    )


def _planned(
    request: SelectionRequest, relevant: Sequence[RelevantTest], seconds: float | None = None
) -> tuple[RunPlan, tuple[Decision, ...]]:
    """A plan within the run's budget, or within other ``seconds``."""
    budget = request.budget if seconds is None else replace(request.budget, seconds=seconds)
    return plan(
        relevant, request.change, request.capability, request.configs, request.offers, budget, request.history
    )  # fmt: skip


def _joined(
    request: SelectionRequest,
    suspects: Sequence[Suspect],
    found: Discovery,
    sorted_out: Triage,
    sort: Callable[..., Triage],
    run_plan: RunPlan,
    planned: tuple[Decision, ...],
) -> Joined:
    """The plan with what the agent suspects."""
    return join(
        (run_plan, planned),
        suspects,
        sorted_out.relevant,
        [impact.test for impact in found.impacts],
        lambda impacts: sort(impacts, agent=RulesAgent()),
        partial(_planned, request),
        request.suspect_room_s,
    )


def _would_reach(found: Discovery, sort: Callable[..., Triage]) -> list[OnTrial]:
    """What discover's rules on trial would have added to the tests that are for this device."""
    if found.watch is None:
        return []
    differences = found.watch.differences
    for name, impacts in found.watch.impacts().items():
        with differences.watched(name):
            for relevant, impact in _relevant(sort(impacts, agent=RulesAgent()), impacts):
                first = impact.evidence[0]
                decision = Decision(
                    Stage.DISCOVER, str(relevant), "impacted", impact.codes[0], first.detail, impact.evidence
                )
                differences.otherwise(name, relevant, decision, add=True)
    return list(differences.opinions())


def _relevant(sorted_out: Triage, impacts: Sequence[Impact]) -> list[tuple[TestId, Impact]]:
    by_test = {impact.test: impact for impact in impacts}
    return [(one.test, by_test[one.test]) for one in sorted_out.relevant]


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
