"""Stage 3: how is it to run? Runtime, modes, order, budget, shards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from selector.configs import Capability, ReuseConfigs, VariantRule
from selector.discover.findings import EDITED_CODES
from selector.model import Change, Decision, Evidence, LeftOut, Mode, PlannedTest, RunPlan, Stage, TestId
from selector.plan.codes import CONFIG, DISPUTED
from selector.plan.model import Budget, History, RelevantTest, WorkerOffer
from selector.plan.modes import Expectation, expect
from selector.plan.packing import pack
from selector.plan.ranking import IN_FORCE, Ranked, arrange, must_run_seconds, within
from selector.plan.runtime import choose_runtime

VARIANT_SECONDS = 0.05  # mean of op tests on the emulated device; only used where nothing was measured
SLOW_FACTOR = 20.0
OVER_BUDGET = "plan-must-run-over-budget"


@dataclass(frozen=True, slots=True)
class _Candidate:
    relevant: RelevantTest
    rule: VariantRule
    ranked: Ranked
    expected: Expectation

    @property
    def test(self) -> TestId:
        return self.relevant.test

    @property
    def seconds(self) -> float:
        return self.ranked.seconds

    @property
    def priority(self) -> float:
        """The chance of a failure, 0..1; one more for what must run."""
        return round(self.ranked.chance + self.ranked.must_run, 6)


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

    Modes: :mod:`selector.plan.modes`. Order: the must-run tests (edited and new ones), then by expected value
    (:mod:`selector.plan.ranking`). What does not fit into ``budget.seconds`` of wall time on ``budget.workers`` is
    named in ``left_out`` and makes the plan partial. Must-run tests are never left out: where they alone are over the
    budget, a decision about ``budget`` says so. Raises :class:`selector.errors.NoWorker` when no offer can run a
    test.
    """
    runtime, not_exercised, decisions = choose_runtime(change, offers)
    found = list(decisions)
    expected = _expected(relevant, configs, capability, history)
    ranked = {one.test: one for one in _rank(relevant, expected, history)}
    runnable: dict[TestId, _Candidate] = {}
    for item in relevant:
        rule = configs.rule(item.test)
        if item.test in ranked:
            runnable[item.test] = _Candidate(item, rule, ranked[item.test], expected[item.test])
        elif item.test in expected:
            found.append(_without_variant(item.test, expected[item.test]))
        else:
            found.append(_skipped(item.test, rule, configs.covers(item.test.file), capability))
    in_order = arrange(list(ranked.values()), IN_FORCE[1])
    ordered = [runnable[one.test] for one in in_order]
    fits = within(in_order, budget.capacity)
    kept, left = ordered[:fits], ordered[fits:]
    most = must_run_seconds(in_order)
    if most > budget.capacity and in_order[0].must_run:
        found.append(_over(most, budget, len(left)))
    planned = tuple(
        PlannedTest(
            c.test,
            c.expected.mode,
            c.priority,
            round(c.seconds, 3),
            c.relevant.codes,
            c.rule.source,
            c.relevant.ops,
            c.expected.code,
        )
        for c in kept
    )
    found += [_planned(c) for c in kept]
    found += [decision for c in kept for decision in _modes(c)]
    left_out = tuple(
        LeftOut(c.test, round(c.seconds, 3), f"the budget of {budget.seconds:g} s on {_workers(budget)} was used up")
        for c in left
    )
    found += [Decision(Stage.PLAN, str(x.test), "left-out", "plan-over-budget", x.reason) for x in left_out]
    shards = pack(planned, budget.workers, budget.shard_seconds)
    return RunPlan(runtime, planned, shards, bool(left_out), left_out, not_exercised), tuple(found)


def rank(
    relevant: Sequence[RelevantTest], configs: ReuseConfigs, capability: Capability, history: History | None
) -> list[Ranked]:
    """What is known of each relevant test that can run, for rankers; in the order of ``relevant``."""
    return _rank(relevant, _expected(relevant, configs, capability, history), history)


def _expected(
    relevant: Sequence[RelevantTest], configs: ReuseConfigs, capability: Capability, history: History | None
) -> dict[TestId, Expectation]:
    """How each test that the configs run is expected to come out."""
    known = history or History()
    return {item.test: expect(item, configs, capability, known) for item in relevant if configs.runs(item.test)}


def _rank(
    relevant: Sequence[RelevantTest], expected: Mapping[TestId, Expectation], history: History | None
) -> list[Ranked]:
    known = history or History()
    runnable = [item for item in relevant if item.test in expected and not expected[item.test].left_out]
    mates = Counter(item.test.file for item in runnable)
    return [
        Ranked(
            item.test,
            not EDITED_CODES.isdisjoint(item.codes),
            item.weight,
            _seconds(item, known),
            mates[item.test.file],
            known.touched.get(item.test),
            *known.broke.get(item.test, (0, 0)),
            codes=item.codes,
            limited=bool(item.ops),
        )
        for item in runnable
    ]


def _workers(budget: Budget) -> str:
    count = max(budget.workers, 1)
    return f"{count} worker" + ("s" if count > 1 else "")


def _over(seconds: float, budget: Budget, left: int) -> Decision:
    reason = (
        f"the tests that the change edits or adds take about {seconds:.0f} s, which all run; the budget is "
        f"{budget.seconds:g} s on {_workers(budget)}"
    )
    reason += f", and nothing else runs ({left} left out)" if left else ""
    return Decision(Stage.PLAN, "budget", "over-budget", OVER_BUDGET, reason)


def _seconds(item: RelevantTest, history: History) -> float:
    count = max(item.est_variants, 1)
    if item.test in history.variant_seconds:
        return count * (history.variant_seconds[item.test] or VARIANT_SECONDS)
    slow = SLOW_FACTOR if item.slow else 1.0
    each = history.file_variant_seconds.get(item.test.file)
    if not each and item.test.file in history.recorded:
        return history.recorded[item.test.file] * slow
    return count * (each or VARIANT_SECONDS) * slow


def _skipped(test: TestId, rule: VariantRule, covered: bool, capability: Capability) -> Decision:
    if not covered:
        code, reason = "plan-not-covered", f"no config of {capability.name} covers {test.file}"
    elif rule.listed:
        code, reason = "plan-skipped-by-config", rule.reason or "every entry for this test says skip"
    else:
        code, reason = "plan-unlisted", rule.reason or "not listed, and the file skips unlisted tests"
    detail = f"mode {rule.mode.value}" + (f", {rule.issue}" if rule.issue else "")
    evidence = (Evidence("config", detail, *_place(rule.source)),) if rule.source else ()
    return Decision(Stage.PLAN, str(test), "left-out", code, reason, evidence)


def _without_variant(test: TestId, expected: Expectation) -> Decision:
    return Decision(Stage.PLAN, str(test), "left-out", expected.left_out, expected.reason)


def _modes(c: _Candidate) -> Iterator[Decision]:
    """Who says how the test is to come out, where that is more than the rule; and what speaks against a config."""
    expected, test = c.expected, str(c.test)
    at = _place(c.rule.source)
    if expected.telling:
        reason = expected.reason or f"{c.rule.source or 'the config'} says so"
        facts = expected.evidence if expected.code != CONFIG else (Evidence("config", c.rule.source, *at),)
        yield Decision(Stage.PLAN, test, expected.mode.value, expected.code, reason, facts)
    if expected.disputed:
        reason = f"{c.rule.source} says {expected.mode.value}, which holds; {expected.disputed}"
        yield Decision(Stage.PLAN, test, "disputed", DISPUTED, reason, (Evidence("config", c.rule.source, *at),))


def _place(source: str) -> tuple[str | None, int | None]:
    path, _, line = source.rpartition(":")
    return path or None, int(line) if line.isdigit() else None


def _planned(c: _Candidate) -> Decision:
    code = "plan-edited" if c.ranked.must_run else "plan-reached"
    what = "edited or added by the change" if c.ranked.must_run else "reached by the change"
    mode = "" if c.expected.mode is Mode.MANDATORY_SUCCESS else f", expected {c.expected.mode.value}"
    why = f" ({c.expected.reason})" if mode and c.expected.reason else ""
    config = Evidence("config", f"mode {c.rule.mode.value}", *_place(c.rule.source))
    cost = Evidence("cost", f"about {c.relevant.est_variants} variants, {c.seconds:.2f} s")
    only = f", for {_named(c.relevant.ops)} only" if c.relevant.ops else ""
    reason = f"{what}, about {c.seconds:.1f} s{only}{mode}{why}"
    value = Evidence("value", c.ranked.told())
    return Decision(Stage.PLAN, str(c.test), "planned", code, reason, (config, cost, value))


def _named(ops: tuple[str, ...]) -> str:
    return ", ".join(ops[:4]) + (f" and {len(ops) - 4} more ops" if len(ops) > 4 else "")
