"""From the difference of two releases to the work it makes: what to evaluate, what of that is for the device, a plan.

What is unchanged, cosmetic or merely renamed keeps its decisions. Everything else goes through triage and plan like the
tests that a pull request reaches; the reason is what changed in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from selector.agents import RulesAgent, TriageAgent
from selector.configs import Capability, ReuseConfigs
from selector.discover import Impact
from selector.discover.diff import Difference, Side, TestChange
from selector.discover.diff.compare import Kind
from selector.discover.diff.variants import VariantCounts, count_variants
from selector.discover.findings import IMPACT_CODES
from selector.model import Change, Decision, Evidence, RunPlan
from selector.pipeline import lifts_of
from selector.plan.model import Budget, History, RelevantTest, WorkerOffer
from selector.plan.planner import plan
from selector.triage import triage
from selector.triage.engagement import Uses

_CODES: dict[Kind, str] = {
    "new": "new-test",
    "body": "edited-test",
    "decorator": "edited-test",
    "helper": "helper",
    "opinfo": "op-info",
}
_NAMED = 4
"""symbols of a part that are named in a reason"""


@dataclass(frozen=True, slots=True)
class Upgrade:
    """``evaluate``: changes whose old results say nothing any more; ``relevant``: those of them for the device;
    ``carried``: tests of the new release that keep what was decided; ``variants``: by both op databases, None where one
    is missing; ``decisions``: of triage and plan, by test."""

    old: str
    new: str
    difference: Difference
    evaluate: tuple[TestChange, ...]
    relevant: tuple[RelevantTest, ...]
    carried: int
    variants: VariantCounts | None
    plan: RunPlan
    decisions: tuple[Decision, ...]


def plan_upgrade(
    old: tuple[str, Side],
    new: tuple[str, Side],
    difference: Difference,
    capability: Capability,
    configs: ReuseConfigs,
    offers: Sequence[WorkerOffer],
    budget: Budget,
    *,
    history: History | None = None,
    agent: TriageAgent | None = None,
    uses: Uses | None = None,
) -> Upgrade:
    """``old`` and ``new``: a name (commit, release) and the side. ``offers``: workers that have the new torch.

    Raises NoWorker when nobody can run a test.
    """
    evaluate = tuple(change for change in difference.changes if change.to_evaluate)
    names = {label: entry.names for label, entry in difference.entries.items()}
    impacts = [_impact(change, names) for change in evaluate]
    side = new[1]
    sorted_out = triage(
        impacts,
        side.inventory,
        capability,
        side.opdb,
        agent=agent or RulesAgent(),
        lifts=lambda test: lifts_of(test, configs),
        uses=uses,
    )
    run_plan, planned = plan(
        sorted_out.relevant, Change(old[0], new[0], ()), capability, configs, offers, budget, history
    )
    return Upgrade(
        old=old[0],
        new=new[0],
        difference=difference,
        evaluate=evaluate,
        relevant=sorted_out.relevant,
        carried=difference.total_new - len(evaluate),
        variants=count_variants(difference, old[1], side),
        plan=run_plan,
        decisions=(*sorted_out.decisions, *planned),
    )


def reason(change: TestChange) -> str:
    """What changed, in words: ``helper: make_arg, TestX.size; constant: LIMIT``."""
    words = [change.kind if change.kind == change.content else f"{change.kind} ({change.content})"]
    if change.was is not None:
        words.append(f"{change.move}, was {change.was}")
    words += [f"{part}: {_named(symbols)}" for part, symbols in change.parts.items() if any(symbols)]
    if change.ops:
        words.append(f"ops that changed: {_named(change.ops)}")
    if change.details:
        words.append(", ".join(change.details))
    return "; ".join(words)


def _impact(change: TestChange, names: dict[str, tuple[str, ...]]) -> Impact:
    code = _CODES[change.content]
    ops: frozenset[str] = frozenset()
    if change.content == "opinfo":
        if set(change.details) == {"op skips"}:
            code = "op-info-skips"
        # nothing else of it differs: the variants of these ops are all that is to be evaluated
        ops = frozenset(name for label in change.ops for name in names.get(label, (label,)))
    evidence = (Evidence("upgrade", reason(change), path=change.test.file),)
    return Impact(change.test, (code,), evidence, IMPACT_CODES[code], ops)


def _named(symbols: Sequence[str]) -> str:
    shown = [one.rpartition("::")[2] for one in symbols if one][:_NAMED]
    more = len(symbols) - _NAMED
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
