"""The selector on a fault: it sees the tree and the fault's diff, and nothing else."""

from __future__ import annotations

import time

from relay.replay.upstream import Ground
from selector.agents import Agent, RulesAgent
from selector.discover import Hints
from selector.model import Change, FileChange
from selector.pipeline import SelectionRequest, select
from selector.plan import Budget, WorkerOffer
from selector.plan.ranking import NOT_KNOWN, PRIOR_BROKE, PRIOR_RUNS
from selector.replay.model import Fault
from selector.replay.strategies import Case, ChosenTest
from selector.trees import LaidTree

NO_LIMIT_S = 1e9
UNKNOWN = NOT_KNOWN * PRIOR_BROKE / PRIOR_RUNS
"""Priority of a test of weight 1 that has no history: what a planned test's weight is read off by"""
RUNTIMES = ("tests-only", "overlay", "pr-build")


def change_of(fault: Fault, ground: Ground) -> tuple[LaidTree, Change]:
    """The tree with the fault, and its diff: nothing else is told of it."""
    old = ground.tree.read(fault.path)
    new = fault.edit.apply(old)
    head = LaidTree(ground.tree, {fault.path: new})
    return head, Change("base", "head", (FileChange(fault.path, "modified", fault.path, old, new),))


def case_of(
    fault: Fault, ground: Ground, hints: Hints | None = None, *, agent: Agent | None = None, room_s: float = 0.0
) -> Case:
    """What is planned for the fault's diff, without a budget, and the seconds it took. ``agent``: whom the rules ask,
    None: nobody; ``room_s``: seconds of each worker for what it suspects."""
    head, change = change_of(fault, ground)
    assert ground.inventory.count  # on the shelf, so that this selection is a warm one
    began = time.perf_counter()
    selection = select(
        SelectionRequest(
            base=ground.tree,
            head=head,
            change=change,
            capability=ground.device.capability,
            configs=ground.device.configs,
            opdb=ground.opdb,
            offers=(WorkerOffer(ground.opdb.torch, RUNTIMES),),
            budget=Budget(NO_LIMIT_S),
            cache=ground.cache,
            shelf=ground.shelf,
            hints=hints or Hints(),
            agent=agent or RulesAgent(),
            suspect_room_s=room_s,
        )
    )
    took = time.perf_counter() - began
    chosen = tuple(
        ChosenTest(one.test, frozenset(one.ops), round(one.priority / UNKNOWN, 4), one.est_seconds, one.codes)
        for one in selection.plan.tests
    )
    widened = any(decision.verdict == "widened" for decision in selection.decisions)
    return Case(fault, chosen, round(took, 4), widened)
