"""Stage 3: how is it to run? Runtime, modes, order, budget, shards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from selector.configs import Capability, ReuseConfigs, VariantRule
from selector.model import Change, Decision, Evidence, LeftOut, Mode, PlannedTest, RunPlan, Stage, TestId
from selector.plan.model import Budget, History, RelevantTest, WorkerOffer
from selector.plan.packing import FILE_SECONDS, pack
from selector.plan.runtime import choose_runtime

VARIANT_SECONDS = 0.05  # mean of op tests on the emulated device; only used where nothing was measured
SLOW_FACTOR = 20.0
EDITED_CODES = frozenset(("edited-test", "new-test"))


@dataclass(frozen=True, slots=True)
class _Candidate:
    relevant: RelevantTest
    rule: VariantRule
    seconds: float

    @property
    def test(self) -> TestId:
        return self.relevant.test

    @property
    def edited(self) -> bool:
        return not EDITED_CODES.isdisjoint(self.relevant.codes)

    @property
    def value(self) -> float:
        """1..2 for tests that the change edits or adds, below that how directly the change reaches them."""
        return (1.0 if self.edited else 0.0) + min(max(self.relevant.weight, 0.0), 1.0)


def plan(
    relevant: Sequence[RelevantTest],
    change: Change,
    capability: Capability,
    configs: ReuseConfigs,
    offers: Sequence[WorkerOffer],
    budget: Budget,
    history: History | None = None,
) -> tuple[RunPlan, tuple[Decision, ...]]:
    """A run plan for the relevant tests, and a decision for each of them and for the runtime.

    Order: edited and new tests first, then by how directly the change reaches a test, the cheap ones first. What does
    not fit into ``budget.seconds`` of wall time on ``budget.workers`` is named in ``left_out`` and makes the plan
    partial. Raises :class:`selector.errors.NoWorker` when no offer can run a test.
    """
    runtime, not_exercised, decisions = choose_runtime(change, offers)
    found = list(decisions)
    runnable: list[_Candidate] = []
    for item in relevant:
        rule = configs.rule(item.test)
        if configs.runs(item.test):
            runnable.append(_Candidate(item, rule, _seconds(item, history)))
        else:
            found.append(_skipped(item.test, rule, configs.covers(item.test.file), capability))
    runnable.sort(key=lambda c: (-c.value, c.seconds, c.test))
    kept, left = _within(runnable, budget)
    planned = tuple(
        PlannedTest(
            c.test,
            c.rule.mode,
            round(c.value, 4),
            round(c.seconds, 3),
            c.relevant.codes,
            c.rule.source,
            c.relevant.ops,
        )
        for c in kept
    )
    found += [_planned(c) for c in kept]
    left_out = tuple(
        LeftOut(c.test, round(c.seconds, 3), f"the budget of {budget.seconds:g} s on {_workers(budget)} was used up")
        for c in left
    )
    found += [Decision(Stage.PLAN, str(x.test), "left-out", "plan-over-budget", x.reason) for x in left_out]
    shards = pack(planned, budget.workers, budget.shard_seconds)
    return RunPlan(runtime, planned, shards, bool(left_out), left_out, not_exercised), tuple(found)


def _workers(budget: Budget) -> str:
    count = max(budget.workers, 1)
    return f"{count} worker" + ("s" if count > 1 else "")


def _seconds(item: RelevantTest, history: History | None) -> float:
    each = None
    if history is not None:
        each = history.variant_seconds.get(item.test) or history.file_variant_seconds.get(item.test.file)
        if each is not None and item.test in history.variant_seconds:
            return max(item.est_variants, 1) * each
    each = VARIANT_SECONDS if each is None else each
    return max(item.est_variants, 1) * each * (SLOW_FACTOR if item.slow else 1.0)


def _skipped(test: TestId, rule: VariantRule, covered: bool, capability: Capability) -> Decision:
    if not covered:
        code, reason = "plan-not-covered", f"no config of {capability.name} covers {test.file}"
    elif rule.listed:
        code, reason = "plan-skipped-by-config", rule.reason or "every entry for this test says skip"
    else:
        code, reason = "plan-unlisted", rule.reason or "not listed, and the file skips unlisted tests"
    path, _, line = rule.source.rpartition(":")
    at = int(line) if line.isdigit() else None
    detail = f"mode {rule.mode.value}" + (f", {rule.issue}" if rule.issue else "")
    evidence = (Evidence("config", detail, path=path or None, line=at),) if rule.source else ()
    return Decision(Stage.PLAN, str(test), "left-out", code, reason, evidence)


def _planned(c: _Candidate) -> Decision:
    code = "plan-edited" if c.edited else "plan-reached"
    what = "edited or added by the change" if c.edited else "reached by the change"
    mode = "" if c.rule.mode is Mode.MANDATORY_SUCCESS else f", expected {c.rule.mode.value}"
    why = f" ({c.rule.reason})" if mode and c.rule.reason else ""
    path, _, line = c.rule.source.rpartition(":")
    at = int(line) if line.isdigit() else None
    config = Evidence("config", f"mode {c.rule.mode.value}", path=path or None, line=at)
    cost = Evidence("cost", f"about {c.relevant.est_variants} variants, {c.seconds:.2f} s")
    only = f", for {_named(c.relevant.ops)} only" if c.relevant.ops else ""
    reason = f"{what}, about {c.seconds:.1f} s{only}{mode}{why}"
    return Decision(Stage.PLAN, str(c.test), "planned", code, reason, (config, cost))


def _named(ops: tuple[str, ...]) -> str:
    return ", ".join(ops[:4]) + (f" and {len(ops) - 4} more ops" if len(ops) > 4 else "")


def _within(ordered: Sequence[_Candidate], budget: Budget) -> tuple[list[_Candidate], list[_Candidate]]:
    """The prefix that fits the budget, and the rest. The first test always runs: a plan of nothing says nothing."""
    capacity = budget.seconds * max(budget.workers, 1)
    used = 0.0
    files: set[str] = set()
    for index, c in enumerate(ordered):
        cost = c.seconds + (0.0 if c.test.file in files else FILE_SECONDS)
        if used + cost > capacity and index > 0:
            return list(ordered[:index]), list(ordered[index:])
        used += cost
        files.add(c.test.file)
    return list(ordered), []
