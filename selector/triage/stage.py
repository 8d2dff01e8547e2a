"""Stage 2: does the test engage the device at all, and is it for this device?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from selector.agents.port import TriageAgent
from selector.configs import Capability
from selector.discover import Impact, Inventory
from selector.discover.opindex import OpIndex
from selector.model import Decision, Evidence, OnTrial, OpDatabase, Stage, TestId
from selector.plan.model import RelevantTest
from selector.triage.categories import topic_of
from selector.triage.engagement import Uses
from selector.triage.environment import NOTHING, UNKNOWN, Environment, Lifts
from selector.triage.rules import RULES, TRIALS
from selector.triage.subject import Opinion, Ruling, Subject
from selector.triage.variants import estimate
from selector.trials import Differences

STAGE_CODES = frozenset({"engaged-before", "idle-before", "no-rule"})


@dataclass(frozen=True, slots=True)
class Triage:
    """``relevant`` in the order of the impacts; ``counts``: relevant, irrelevant, ask (before an agent answered);
    ``on_trial``: what rules and models on trial would have said otherwise."""

    relevant: tuple[RelevantTest, ...]
    decisions: tuple[Decision, ...]
    counts: dict[str, int]
    on_trial: tuple[OnTrial, ...] = ()


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
    models: Sequence[TriageAgent] = (),
) -> Triage:
    """Sorts the impacted tests for one device.

    ``engaged_before``: kernels that trusted runs counted on the device; a test with any is never dropped.
    ``idle_before``: tests that passed in trusted runs without a kernel, which answers where the rules are not sure.
    ``agent`` answers where neither is sure; whatever it does not drop with a reason stays. ``lifts``: the limits
    that a config lifts for a test; ``environment``: the machine that will run the tests; ``uses``: what tests
    do with their device, read from their sources; ``models``: agents on trial, asked what ``agent`` is asked, without
    effect.
    """
    engaged = engaged_before or {}
    differences = Differences(Stage.TRIAGE)
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
        kernels = engaged.get(impact.test, 0)
        asked, first = _judge(subject)
        opinion = first
        if first.ruling is Ruling.ASK:
            counts["ask"] += 1
            opinion = _idle(first) if impact.test in idle_before else agent.answer(subject, first)
        opinion = _settled(opinion, kernels)
        _try(subject, asked, first, opinion, kernels, models, differences)
        counts[opinion.ruling.value] += 1
        decisions.append(_decision(subject, opinion))
        if opinion.ruling is not Ruling.IRRELEVANT:
            # what reaches a test through its op list reaches those ops' variants only
            ops = impact.ops if subject.test.ops is not None else frozenset[str]()
            variants, slow = estimate(subject, ops)
            weight = round(impact.weight * (0.5 + 0.5 * opinion.confidence), 4)
            relevant.append(RelevantTest(impact.test, impact.codes, weight, variants, slow, tuple(sorted(ops))))
    return Triage(tuple(relevant), tuple(decisions), counts, differences.opinions())


def judge(subject: Subject) -> Opinion:
    """The first rule in force that answers; where none does, the test is kept and an agent asked."""
    return _judge(subject)[1]


def _judge(subject: Subject) -> tuple[int, Opinion]:
    """(how many rules said nothing, the answer)"""
    for place, (_, rule) in enumerate(RULES):
        opinion = rule(subject)
        if opinion is not None:
            return place, opinion
    return len(RULES), Opinion(Ruling.ASK, None, "no-rule", "no rule says anything about it", (), 0.5)


def _settled(opinion: Opinion, kernels: int) -> Opinion:
    """Evidence beats everybody who drops."""
    return _engaged(opinion, kernels) if kernels > 0 and opinion.ruling is Ruling.IRRELEVANT else opinion


def _try(
    subject: Subject,
    asked: int,
    first: Opinion,
    opinion: Opinion,
    kernels: int,
    models: Sequence[TriageAgent],
    differences: Differences,
) -> None:
    """Asks the rules on trial that stand before the one that answered (``first``, after ``asked`` others), and models
    on trial what the agent was asked. Notes where the outcome would have been another than ``opinion``; what one of
    them is not sure of either is kept."""
    dropped = opinion.ruling is Ruling.IRRELEVANT
    trials: list[tuple[str, Callable[[], Opinion | None]]] = [
        (name, partial(rule, subject)) for name, rule, ahead in TRIALS if ahead <= asked
    ]
    if first.ruling is Ruling.ASK:
        trials += [(f"model:{model.name}", partial(model.answer, subject, first)) for model in models]
    for name, ask in trials:
        with differences.watched(name):
            said = ask()
            answer = _settled(said, kernels) if said is not None else opinion
            if (answer.ruling is Ruling.IRRELEVANT) is not dropped:
                differences.otherwise(name, subject.id, _decision(subject, answer), add=dropped)


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
