"""Stage 2: does the test engage the device at all, and is it for this device?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from selector.agents.port import TriageAgent
from selector.configs import Capability
from selector.discover import Impact, Inventory
from selector.discover.opindex import OpIndex
from selector.model import Decision, Evidence, OpDatabase, Stage, TestId
from selector.plan.model import RelevantTest
from selector.triage.categories import topic_of
from selector.triage.engagement import Uses
from selector.triage.environment import NOTHING, UNKNOWN, Environment, Lifts
from selector.triage.rules import RULES
from selector.triage.subject import Opinion, Ruling, Subject
from selector.triage.variants import estimate

STAGE_CODES = frozenset({"engaged-before", "idle-before", "no-rule"})


@dataclass(frozen=True, slots=True)
class Triage:
    """``relevant`` in the order of the impacts; ``counts``: relevant, irrelevant, ask (before an agent answered)."""

    relevant: tuple[RelevantTest, ...]
    decisions: tuple[Decision, ...]
    counts: dict[str, int]


def triage(
    impacts: Sequence[Impact],
    inventory: Inventory,
    capability: Capability,
    opdb: OpDatabase | None = None,
    engaged_before: Mapping[TestId, int] | None = None,
    *,
    agent: TriageAgent,
    lifts: Callable[[TestId], Lifts] | None = None,
    environment: Environment = UNKNOWN,
    uses: Uses | None = None,
    idle_before: Collection[TestId] = frozenset(),
) -> Triage:
    """Sorts the impacted tests for one device.

    ``engaged_before``: kernels that trusted runs counted on the device; a test with any is never dropped.
    ``idle_before``: tests that passed in trusted runs without a kernel, which answers where the rules are not sure.
    ``agent`` answers where neither is sure; whatever it does not drop with a reason stays. ``lifts``: the limits
    that a config lifts for a test; ``environment``: the machine that will run the tests; ``uses``: what tests
    do with their device, read from their sources.
    """
    engaged = engaged_before or {}
    index = OpIndex(opdb)
    relevant: list[RelevantTest] = []
    decisions: list[Decision] = []
    counts = {"relevant": 0, "irrelevant": 0, "ask": 0}
    for impact in impacts:
        found = inventory.find(impact.test)
        if found is None:
            raise LookupError(f"{impact.test} is impacted but not in the inventory")
        lifted = lifts(impact.test) if lifts is not None else NOTHING
        subject = Subject(impact, *found, inventory, capability, index, lifted, environment, uses)
        opinion = judge(subject)
        if opinion.ruling is Ruling.ASK:
            counts["ask"] += 1
            idle = impact.test in idle_before
            opinion = _idle(opinion) if idle else agent.answer(subject, opinion)
        kernels = engaged.get(impact.test, 0)
        if kernels > 0 and opinion.ruling is Ruling.IRRELEVANT:
            opinion = _engaged(opinion, kernels)
        counts[opinion.ruling.value] += 1
        decisions.append(_decision(subject, opinion))
        if opinion.ruling is not Ruling.IRRELEVANT:
            # what reaches a test through its op list reaches those ops' variants only
            ops = impact.ops if subject.test.ops is not None else frozenset[str]()
            variants, slow = estimate(subject, ops)
            weight = round(impact.weight * (0.5 + 0.5 * opinion.confidence), 4)
            relevant.append(RelevantTest(impact.test, impact.codes, weight, variants, slow, tuple(sorted(ops))))
    return Triage(tuple(relevant), tuple(decisions), counts)


def judge(subject: Subject) -> Opinion:
    """The first rule that answers; where none does, the test is kept and an agent asked."""
    for _, rule in RULES:
        opinion = rule(subject)
        if opinion is not None:
            return opinion
    return Opinion(Ruling.ASK, None, "no-rule", "no rule says anything about it", (), 0.5)


def _engaged(opinion: Opinion, kernels: int) -> Opinion:
    fact = Evidence("kernels", f"a trusted run counted {kernels} kernels of it on the device")
    reason = f"seen to engage the device, although: {opinion.reason}"
    return Opinion(Ruling.RELEVANT, opinion.category, "engaged-before", reason, (fact, *opinion.evidence))


def _idle(opinion: Opinion) -> Opinion:
    fact = Evidence("kernels", "it passed in a trusted run, and the device ran no kernel of it")
    reason = f"seen to pass without the device, which answers: {opinion.reason}"
    return Opinion(Ruling.IRRELEVANT, opinion.category, "idle-before", reason, (fact, *opinion.evidence), 0.9)


def _decision(subject: Subject, opinion: Opinion) -> Decision:
    facts = (*opinion.evidence, Evidence("category", (opinion.category or topic_of(subject)).value))
    return Decision(
        Stage.TRIAGE,
        str(subject.id),
        opinion.ruling.value,
        opinion.code,
        opinion.reason,
        facts,
        opinion.confidence,
        opinion.by,
    )
