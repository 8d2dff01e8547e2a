"""What a selection gets beside the change's own tests: what trunk has taught, a drawn sample of unselected tests on a
share of the runs, and what rankers, rules and models on trial said, which nobody acts on."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from sqlalchemy import Connection

from relay.services import proposing
from relay.settings import Settings
from relay.store import trunk
from selector.configs import ReuseConfigs
from selector.discover import Inventory
from selector.model import FAILED, Decision, Evidence, Outcome, PlannedTest, Selection, Shadow, ShardSpec, Stage, TestId
from selector.plan import History
from selector.plan.codes import CONFIG, DEFAULT
from selector.plan.explore import CODE, DECIDED, TEST_SECONDS, draw, explores
from selector.plan.ranking import SEEN
from selector.plan.standing import Standing
from selector.plan.trunk import standing
from selector.verify.faults import environment_fault

DAYS = 30.0
ROWS = 20_000
UNUSUAL = (*FAILED, Outcome.XPASSED)
"""outcomes after which a test's runs are looked at: what always passed, or failed as a config says, is plain"""
LOOKED_AT = 500
"""Tests with such an outcome, those with the newest ones first."""


@dataclass(frozen=True, slots=True)
class Learned:
    """What trunk's own runs of the last month showed: costs, who touches the device, what began to fail how often; and
    the kernels of each test that ran any. ``idle``: tests of which every variant passed, and none ran a kernel."""

    history: History
    kernels: dict[TestId, int]
    idle: frozenset[TestId] = frozenset()


def learn(conn: Connection, device: str, now: float) -> Learned:
    """Reads trunk's results alone: an unmerged change must not make others' tests dear, idle or suspect."""
    seconds: dict[TestId, list[float]] = defaultdict(list)
    by_file: dict[str, list[float]] = defaultdict(list)
    kernels: dict[TestId, int] = defaultdict(int)
    metered: set[TestId] = set()
    idle: dict[TestId, bool] = {}
    failed: dict[TestId, dict[str, bool]] = defaultdict(dict)
    unusual: dict[TestId, None] = {}
    for row in trunk.costs(conn, device, now - DAYS * 86400.0, ROWS):
        test = TestId.parse(row.test)
        if environment_fault(row.message) is not None:
            continue
        seconds[test].append(row.seconds)
        by_file[test.file].append(row.seconds)
        kernels[test] = max(kernels[test], row.kernels or 0)
        if row.kernels is not None:
            metered.add(test)
        # a failure may have come before the first kernel
        idle[test] = idle.get(test, True) and row.kernels == 0 and row.outcome == Outcome.PASSED.value
        runs = failed[test]
        runs[row.dispatch_id] = runs.get(row.dispatch_id, False) or row.outcome in FAILED
        if row.outcome in UNUSUAL:
            unusual[test] = None
    return Learned(
        History(
            {test: sum(all_) / len(all_) for test, all_ in seconds.items()},
            {file: sum(all_) / len(all_) for file, all_ in by_file.items()},
            {test: kernels[test] > 0 for test in metered},
            {test: (_began(list(runs.values())), len(runs)) for test, runs in failed.items()},
            _stand(conn, device, now, list(unusual)[:LOOKED_AT]),
        ),
        {test: n for test, n in kernels.items() if n},
        frozenset(test for test, none in idle.items() if none),
    )


def _stand(conn: Connection, device: str, now: float, tests: list[TestId]) -> dict[TestId, Standing]:
    """How tests stand on trunk by their runs, as proposals to configs see it."""
    stands = {test: standing(runs) for test, runs in proposing.runs_of(conn, device, now, tests).items()}
    return {test: one for test, one in stands.items() if one is not None and one.kind != "passes"}


def _began(newest_first: list[bool]) -> int:
    """How often a test began to fail: runs that failed after one that did not."""
    return sum(later and not earlier for later, earlier in pairwise(newest_first))


def extend(
    selection: Selection, inventory: Inventory | None, configs: ReuseConfigs, settings: Settings, workers: int
) -> tuple[Selection, dict[str, Any] | None]:
    """The selection with the tests that its commit draws, in shards of their own behind the others, and what was drawn
    as a map for the plan's row. A run without a plan draws nothing: there is no worker time to spend beside it."""
    sha = selection.change.head
    if inventory is None or not selection.plan.tests or not explores(sha, settings.explore_share):
        return selection, None
    taken = {t.test for t in selection.plan.tests} | {t.test for t in selection.plan.left_out}
    others = [test for test, _, _ in inventory.tests() if test not in taken and configs.runs(test)]
    drawn = draw(sha, others, settings.explore_seconds * max(workers, 1))
    planned = tuple(
        PlannedTest(
            test, rule.mode, 0.0, TEST_SECONDS, (CODE,), rule.source, mode_code=CONFIG if rule.listed else DEFAULT
        )
        for test, rule in ((test, configs.rule(test)) for test in drawn.tests)
    )
    shards = list(selection.plan.shards)
    most = max(int(settings.shard_seconds / TEST_SECONDS), 1)
    for at in range(0, len(drawn.tests), most):
        some = drawn.tests[at : at + most]
        shards.append(ShardSpec(len(shards), some, round(len(some) * TEST_SECONDS, 3)))
    reason = f"drawn with a probability of {drawn.fraction:.2%} from {drawn.population} tests that nothing selected"
    why = (Evidence("draw", f"by the commit {sha[:10]} alone"),)
    decisions = tuple(Decision(Stage.PLAN, str(test), "planned", DECIDED, reason, why) for test in drawn.tests)
    plan = replace(selection.plan, tests=(*selection.plan.tests, *planned), shards=tuple(shards))
    counts = {**selection.counts, "explored": len(drawn.tests)}
    told = {"fraction": drawn.fraction, "population": drawn.population, "tests": [str(t) for t in drawn.tests]}
    extended = replace(selection, plan=plan, decisions=(*selection.decisions, *decisions), counts=counts)
    return extended, told


def shadow_map(shadow: Shadow) -> dict[str, Any]:
    """What was evaluated and not acted upon, for the plan's row: ids by ranker, what each test is thought to cost, what
    rules and models on trial would have decided otherwise, the first ones with their reasons, and what rankers saw."""
    return {
        "orders": {name: [str(test) for test in tests] for name, tests in shadow.orders.items()},
        "seconds": {str(test): seconds for test, seconds in shadow.seconds.items()},
        "opinions": [
            {
                "subject": one.subject,
                "stage": one.stage.value,
                "adds": [str(test) for test in one.adds],
                "drops": [str(test) for test in one.drops],
                "reasons": [{"test": d.subject, "code": d.code, "reason": d.reason} for d in one.decisions],
                "error": one.error,
            }
            for one in shadow.opinions
        ],
        "seen": {"columns": list(SEEN), "rows": {str(test): list(row) for test, row in shadow.seen.items()}},
    }
