"""Stage 2: does the test engage the device at all, and is it for this device?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from selector.agents.port import CONFIRMS, DROPPED, MUST_RUN, Asked, TriageAgent
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
from selector.triage.variants import drawn, estimate
from selector.trials import Differences

STAGE_CODES = frozenset({"engaged-before", "idle-before", "no-rule", DROPPED, "agent-unconfirmed"})
SURE = 0.9
"""confidence from which a test that the rules keep is a control: who drops it is wrong"""


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
    ``agent`` answers where neither is sure; what it does not drop stays, and so does what it drops without a critic's
    word, what the change edits or adds, and what ran kernels. ``lifts``: the limits
    that a config lifts for a test; ``environment``: the machine that will run the tests; ``uses``: what tests
    do with their device, read from their sources; ``models``: agents on trial, asked what ``agent`` is asked, without
    effect.
    """
    engaged = engaged_before or {}
    index = OpIndex(opdb)
    relevant: list[RelevantTest] = []
    decisions: list[Decision] = []
    differences = Differences(Stage.TRIAGE)
    counts = {"relevant": 0, "irrelevant": 0, "ask": 0}
    subjects: list[Subject] = []
    for impact in impacts:
        found = inventory.find(impact.test)
        if found is None:
            raise LookupError(f"{impact.test} is impacted but not in the inventory")
        lifted = lifts(impact.test) if lifts is not None else NOTHING
        subjects.append(Subject(impact, *found, inventory, capability, index, lifted, environment, uses))
    judged = [_judge(subject) for subject in subjects]
    firsts = [opinion for _, opinion in judged]
    opinions = [
        _idle(o) if o.ruling is Ruling.ASK and s.id in idle_before else o for s, o in zip(subjects, firsts, strict=True)
    ]
    asked = [at for at, opinion in enumerate(opinions) if opinion.ruling is Ruling.ASK]
    sure = [s for s, o in zip(subjects, opinions, strict=True) if o.ruling is Ruling.RELEVANT and o.confidence >= SURE]
    for at, answer in _answers(agent, [(at, subjects[at], opinions[at]) for at in asked], sure):
        opinions[at] = _allowed(subjects[at], opinions[at], answer)
    for at, (subject, (before, first), opinion) in enumerate(zip(subjects, judged, opinions, strict=True)):
        impact = subject.impact
        opinions[at] = opinion = _settled(opinion, engaged.get(impact.test, 0))
        _try(subject, before, opinion, differences)
        counts["ask"] += first.ruling is Ruling.ASK
        counts[opinion.ruling.value] += 1
        decisions.append(_decision(subject, opinion))
        if opinion.ruling is not Ruling.IRRELEVANT:
            # what reaches a test through its op list reaches those ops' variants only
            ops = impact.ops if subject.test.ops is not None else frozenset[str]()
            variants, slow = estimate(subject, ops)
            weight = round(impact.weight * (0.5 + 0.5 * opinion.confidence), 4)
            draws = drawn(subject, ops)
            relevant.append(RelevantTest(impact.test, impact.codes, weight, variants, slow, tuple(sorted(ops)), draws))
    for model in models:
        name = f"model:{model.name}"
        with differences.watched(name):
            for at, answer in _answers(model, [(at, subjects[at], firsts[at]) for at in asked], sure):
                said = _settled(answer, engaged.get(subjects[at].id, 0))
                _compare(name, subjects[at], said, opinions[at], differences)
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


def _try(subject: Subject, before: int, opinion: Opinion, differences: Differences) -> None:
    """Asks the rules on trial that stand in front of the one that answered, ``before`` others having said nothing, and
    notes where the outcome would have been another than ``opinion``; what one of them is not sure of either is kept."""
    for name, rule, ahead in TRIALS:
        if ahead <= before:
            with differences.watched(name):
                said = rule(subject)
                if said is not None:
                    _compare(name, subject, said, opinion, differences)


def _compare(name: str, subject: Subject, said: Opinion, opinion: Opinion, differences: Differences) -> None:
    dropped = opinion.ruling is Ruling.IRRELEVANT
    if (said.ruling is Ruling.IRRELEVANT) is not dropped:
        differences.otherwise(name, subject.id, _decision(subject, said), add=dropped)


def _answers(
    agent: TriageAgent, asked: Sequence[tuple[int, Subject, Opinion]], sure: Sequence[Subject]
) -> list[tuple[int, Opinion]]:
    """(place, answer) of everything that is asked, at once: an agent may ask a model about many tests together."""
    if not asked:
        return []
    said = agent.answers([Asked(subject, opinion) for _, subject, opinion in asked], sure)
    return [(at, answer) for (at, _, _), answer in zip(asked, said, strict=True)]


def _allowed(subject: Subject, asked: Opinion, answer: Opinion) -> Opinion:
    """An agent's answer, but for a drop that it may not make: of what the change edits or adds, or on its own word."""
    edited = not MUST_RUN.isdisjoint(subject.impact.codes)
    confirmed = answer.ruling is Ruling.IRRELEVANT and answer.by == CONFIRMS
    if answer.ruling is Ruling.RELEVANT or (confirmed and not edited):
        return answer
    why = "the change edits or adds it" if edited else "no critic agreed"
    reason = f"kept: {answer.by} would leave it out, and {why}; {asked.reason}"
    return replace(asked, ruling=Ruling.RELEVANT, code="agent-unconfirmed", reason=reason)


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
