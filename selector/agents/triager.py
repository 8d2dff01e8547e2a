"""Stage 2: a model reads the tests that rules are not sure of. It may keep; a drop needs trusted runs without a
kernel, a ground that holds by the parsed source, a quote that stands there, controls that were kept, and a critic who
agrees with evidence of its own. Tests that the change has a hand in are not asked about at all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from selector.agents import controls as control
from selector.agents.answers import Kept, from_bytes, to_bytes
from selector.agents.budget import Meter, Used
from selector.agents.check import quoted
from selector.agents.critic import Claim, Critic, sources
from selector.agents.desk import Desk, data
from selector.agents.grounds import proof
from selector.agents.mind import Mind, Question
from selector.agents.port import CONFIRMS, DROPPED, MUST_RUN, Asked
from selector.agents.prompts import TRIAGE, VERSION
from selector.agents.records import Journal, Line, Unanswered
from selector.agents.rules import RulesAgent
from selector.agents.sheets import TriageLine, TriageSheet, known_only
from selector.discover import InventoryCache
from selector.model import Evidence, Stage, TestId
from selector.triage.subject import Opinion, Ruling, Subject

BATCH = 12
TOOLS = ("read_source", "find_tests", "show_device", "show_history")


@dataclass
class Triager:
    """``touched``: paths that the change touches: nothing of theirs is evidence, and no answer is kept that was given
    with sight of one."""

    mind: Mind
    critic: Critic
    desk: Desk
    meter: Meter
    journal: Journal
    touched: Collection[str] = ()
    cache: InventoryCache | None = None
    _floor: RulesAgent = field(default_factory=RulesAgent)

    def answers(self, asked: Sequence[Asked], controls: Sequence[Subject]) -> list[Opinion]:
        """The rules' own answer for each, but where a line of a sheet was taken."""
        found = {one.subject.id: self._floor.answer(one.subject, one.opinion) for one in asked}
        open_ = [one for one in asked if self._open(one.subject)]
        known = self._kept(open_)
        for one in open_:
            found[one.subject.id] = self._opinion(one, found[one.subject.id], known)
        for batch in self._batches([one for one in open_ if one.subject.id not in known]):
            try:
                said = self._ask(batch, controls)
            except Unanswered as exc:
                for one in batch:
                    found[one.subject.id] = _unanswered(found[one.subject.id], exc)
                if self.meter.left_s <= 0 or not self.meter.steps_left or exc.code != "agent-no-sheet":
                    break  # the next batch would fare no better
                continue
            for one in batch:
                found[one.subject.id] = self._opinion(one, found[one.subject.id], said)
        return [found[one.subject.id] for one in asked]

    def _open(self, subject: Subject) -> bool:
        """Whether a model is asked about it. Not where no trusted run showed that it passes without a kernel: a drop
        would be refused, so the question would cost money for nothing."""
        past = self.desk.past.get(subject.id)
        return past is not None and past.idle and self._untouched(subject)

    def _untouched(self, subject: Subject) -> bool:
        """Of a test that reaches what the change touches, its author wrote a part of what would be evidence: mentioning
        a feature in a helper must not take its callers out."""
        reached = {path for path, _ in subject.inventory.reached(subject.id)} | {subject.id.file}
        return reached.isdisjoint(self.touched) and MUST_RUN.isdisjoint(subject.impact.codes)

    def _batches(self, asked: Sequence[Asked]) -> Iterator[list[Asked]]:
        in_order = sorted(asked, key=lambda one: -one.subject.impact.weight)
        for at in range(0, len(in_order), BATCH):
            yield in_order[at : at + BATCH]

    # ---------------------------------------------------------------------------------------------------- one question

    def _ask(self, batch: Sequence[Asked], controls: Sequence[Subject]) -> dict[TestId, Kept]:
        used = self.meter.used()
        self.desk.again()
        self.desk.seen.clear()  # a conversation of its own knows nothing of what another question showed
        seed = "\0".join(str(one.subject.id) for one in batch)
        # those that the change has no hand in, where there are any: what a stranger wrote is not read beside the others
        known = control.chosen(controls, seed, fit=self._untouched)
        subjects = control.mixed([one.subject for one in batch] + known, seed)
        ids = [str(subject.id) for subject in subjects]
        sheet = known_only(TriageSheet, TriageLine, "test", ids)
        question = Question(TRIAGE, _prompt(subjects), sheet, self.desk, TOOLS, partial(sources, subjects, self.desk))
        try:
            reply = self.mind.ask(question, self.meter)
        except Unanswered as exc:
            self.journal.unanswered(Stage.TRIAGE, "model", self.mind.name, exc, self.meter.since(used))
            raise
        refused: list[Line] = []
        lines = self._known(reply.sheet.lines, ids, refused)
        kept, claims = self._sort(batch, lines, known, refused)
        self._note(
            "agent-answered",
            f"{len(batch)} tests asked, {len(claims)} to be dropped",
            used,
            [Line(str(test), "keep", one.reason) for test, one in sorted(kept.items())]
            + [Line(str(c.subject.id), f"drop ({c.ground.value})", c.reason) for c in claims],
            refused,
            reply.transcript,
            reply.abilities,
        )
        for claim, fact in self.critic.confirmed(claims, known, self.desk, self.meter, self.journal):
            facts = (claim.proof, claim.shown, fact)
            kept[claim.subject.id] = Kept(True, claim.reason, claim.category, facts)
        self._keep(batch, kept)
        return kept

    def _known(self, lines: Sequence[TriageLine], ids: Sequence[str], refused: list[Line]) -> dict[str, TriageLine]:
        found: dict[str, TriageLine] = {}
        for line in lines:
            said = "keep" if line.keep else "drop"
            if line.test not in ids:
                refused.append(Line(line.test, said, "it was not asked about", "agent-unknown-id"))
            elif line.test in found:
                refused.append(Line(line.test, said, "answered twice", "agent-twice"))
            else:
                found[line.test] = line
        return found

    def _sort(
        self, batch: Sequence[Asked], lines: dict[str, TriageLine], known: Sequence[Subject], refused: list[Line]
    ) -> tuple[dict[TestId, Kept], list[Claim]]:
        """Keeps that were taken, and drops that hold by the source: those go to the critic."""
        dropped = [TestId.parse(test) for test, line in lines.items() if not line.keep]
        distrust = "agent-failed-control" if control.failed(dropped, known) else "" if known else "agent-no-control"
        kept: dict[TestId, Kept] = {}
        claims: list[Claim] = []
        for one in batch:
            test = one.subject.id
            line = lines.get(str(test))
            if line is None:
                refused.append(Line(str(test), "nothing", "it was left out", "agent-no-answer"))
                continue
            fact = quoted(line.quote, self.desk, "model", None if line.keep else one.subject)
            if line.keep:
                if fact is None:
                    refused.append(Line(str(test), "keep", line.reason, "agent-quote-not-found"))
                else:
                    kept[test] = Kept(False, line.reason, line.category, (fact,))
                continue
            shown = proof(line.ground, one.subject) if line.ground is not None else None
            code = distrust
            if not code and line.ground is None:
                code = "agent-no-ground"
            elif not code and shown is None:
                code = "agent-ground-unproven"
            elif not code and fact is None:
                code = "agent-quote-not-found"
            if code or line.ground is None or shown is None or fact is None:
                refused.append(Line(str(test), f"drop ({line.ground or 'no ground'})", line.reason, code))
            else:
                claims.append(Claim(one.subject, line.ground, line.reason, line.category, fact, shown))
        return kept, claims

    def _opinion(self, one: Asked, floor: Opinion, said: dict[TestId, Kept]) -> Opinion:
        answer = said.get(one.subject.id)
        if answer is None:
            return floor
        category = answer.category or floor.category
        facts = (*answer.evidence, *floor.evidence)
        if answer.drop:
            reason = f"left out by a model, and a second one agrees: {answer.reason}"
            return Opinion(Ruling.IRRELEVANT, category, DROPPED, reason, facts, 0.8, CONFIRMS)
        # no more sure than the rules: a model that praises a test must not push others out of the budget
        reason = f"kept by a model: {answer.reason}"
        return replace(floor, category=category, reason=reason, evidence=facts, by="model")

    # -------------------------------------------------------------------------------------------------- kept answers

    def _key(self, one: Asked) -> str:
        """By everything that the answer could depend on: the content of the files that the test reaches, the sheet, the
        prompts and the models. What trusted runs showed decides whether it is asked about at all."""
        inventory, sheet = one.subject.inventory, one.subject.capability
        files = sorted({path for path, _ in inventory.reached(one.subject.id)} | {one.subject.id.file})
        parts = [
            VERSION,
            self.mind.name,
            self.critic.name,
            [sheet.name, sheet.device, sorted(sheet.dtypes), sorted(sheet.features.items())],
            [str(one.subject.id), one.opinion.code],
            [[path, inventory.ids.get(path, "")] for path in files],
        ]
        return "triage-" + hashlib.blake2b(json.dumps(parts).encode(), digest_size=20).hexdigest()

    def _kept(self, asked: Sequence[Asked]) -> dict[TestId, Kept]:
        """What was answered before, of all the tests."""
        if self.cache is None:
            return {}
        kept = {one.subject.id: from_bytes(self.cache.get(self._key(one))) for one in asked}
        found = {test: one for test, one in kept.items() if one is not None}
        if found:
            told = [Line(str(test), "drop" if one.drop else "keep", one.reason) for test, one in sorted(found.items())]
            self._note("agent-cached", f"{len(found)} tests were answered before", self.meter.used(), told)
        return found

    def _keep(self, batch: Sequence[Asked], said: dict[TestId, Kept]) -> None:
        """Not where the model went and read something that the change touches: what its author wrote must not decide
        for another's change."""
        if self.cache is None or not self.desk.seen.isdisjoint(self.touched):
            return
        for one in batch:
            if one.subject.id in said:
                self.cache.put(self._key(one), to_bytes(said[one.subject.id]))

    def _note(
        self,
        code: str,
        reason: str,
        before: Used,
        taken: Sequence[Line] = (),
        refused: Sequence[Line] = (),
        transcript: Sequence[dict[str, str]] = (),
        abilities: str = "",
    ) -> None:
        used = self.meter.since(before)
        self.journal.add(
            Stage.TRIAGE, "model", self.mind.name, code, reason, used, taken, refused, transcript, abilities
        )


def _unanswered(floor: Opinion, exc: Unanswered) -> Opinion:
    fact = Evidence("agent", f"{exc.code}: {exc}")
    return replace(floor, evidence=(*floor.evidence, fact))


def _prompt(subjects: Sequence[Subject]) -> str:
    device = subjects[0].capability.device
    listed = "\n".join(f"{s.id}  (line {s.test.line}; device by the source: {_uses(s)})" for s in subjects)
    return f"The device is {device!r}. The tests:\n{data(listed)}"


def _uses(subject: Subject) -> str:
    return {True: "may be used", False: "not used", None: "not known"}[subject.uses_device]
