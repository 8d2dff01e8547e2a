"""A second agent that must agree before a test is left out, with evidence of its own. It is told what is claimed, not
who claims it, and has to tell the claims apart from others that are known to be wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from selector.agents import controls as control
from selector.agents.budget import Meter
from selector.agents.check import quoted
from selector.agents.desk import CHARACTERS, Desk, data
from selector.agents.mind import Mind, Question
from selector.agents.prompts import CRITIC
from selector.agents.records import Journal, Line, Unanswered
from selector.agents.sheets import CriticLine, CriticSheet, Ground, known_only
from selector.model import Evidence, Stage
from selector.triage.subject import Category, Subject

SOURCE_LINES = 60
TOOLS = ("read_source", "find_tests", "show_device", "show_history")


@dataclass(frozen=True, slots=True)
class Claim:
    """That a test may be dropped: ``shown`` what the first agent quoted, ``proof`` what the parsed source says."""

    subject: Subject
    ground: Ground
    reason: str
    category: Category | None
    shown: Evidence
    proof: Evidence


@dataclass(frozen=True, slots=True)
class Critic:
    mind: Mind

    @property
    def name(self) -> str:
        return self.mind.name

    def confirmed(
        self, claims: Sequence[Claim], known: Sequence[Subject], desk: Desk, meter: Meter, journal: Journal
    ) -> list[tuple[Claim, Evidence]]:
        """The claims that it agrees with, each with the line that it shows for it. None of them where it agrees to
        drop one of ``known``, or does not answer."""
        if not claims:
            return []
        used = meter.used()
        desk.again()
        seed = "critic" + "\0".join(str(claim.subject.id) for claim in claims)
        wrong = control.chosen(known, seed, 2)
        grounds = {claim.subject.id: claim.ground for claim in claims}
        quotes = {claim.subject.id: claim.shown for claim in claims}
        subjects = control.mixed([claim.subject for claim in claims] + wrong, seed)
        listed = "\n".join(
            f"{s.id}  (line {s.test.line}; ground: {grounds.get(s.id, Ground.USES_NO_DEVICE).value}"
            + (
                f"; quoted already: line {quotes[s.id].line})"
                if s.id in quotes
                else "; quoted already: its first line)"
            )
            for s in subjects
        )
        ids = [str(subject.id) for subject in subjects]
        sheet = known_only(CriticSheet, CriticLine, "test", ids)
        at_hand = partial(sources, subjects, desk)
        question = Question(CRITIC, f"The claims:\n{data(listed)}", sheet, desk, TOOLS, at_hand)
        try:
            reply = self.mind.ask(question, meter)
        except Unanswered as exc:
            left = [Line(str(claim.subject.id), "nothing", str(exc), "agent-not-confirmed") for claim in claims]
            journal.unanswered(Stage.TRIAGE, "critic", self.name, exc, meter.since(used), left)
            return []
        taken, refused = self._sort(reply.sheet.lines, claims, wrong, desk, ids)
        journal.add(
            Stage.TRIAGE,
            "critic",
            self.name,
            "agent-answered",
            f"{len(claims)} drops to confirm, {len(taken)} confirmed",
            meter.since(used),
            [Line(str(claim.subject.id), "confirm", fact.detail) for claim, fact in taken],
            refused,
            reply.transcript,
            reply.abilities,
        )
        return taken

    def _sort(
        self,
        lines: Sequence[CriticLine],
        claims: Sequence[Claim],
        wrong: Sequence[Subject],
        desk: Desk,
        ids: Sequence[str],
    ) -> tuple[list[tuple[Claim, Evidence]], list[Line]]:
        refused = [
            Line(line.test, "confirm" if line.confirm else "object", "it was not asked about", "agent-unknown-id")
            for line in lines
            if line.test not in ids
        ]
        by_test = {line.test: line for line in reversed(lines)}
        agreed = {line.test for line in by_test.values() if line.confirm}
        distrust = not agreed.isdisjoint(str(subject.id) for subject in wrong)
        taken: list[tuple[Claim, Evidence]] = []
        for claim in claims:
            name = str(claim.subject.id)
            line = by_test.get(name)
            if line is None or not line.confirm:
                refused.append(Line(name, "object", line.reason if line else "no answer", "agent-not-confirmed"))
                continue
            fact = quoted(line.quote, desk, "critic", claim.subject)
            if distrust:
                refused.append(Line(name, "confirm", line.reason, "agent-critic-failed-control"))
            elif fact is None:
                refused.append(Line(name, "confirm", line.reason, "agent-quote-not-found"))
            elif (fact.path, fact.line) == (claim.shown.path, claim.shown.line):
                refused.append(Line(name, "confirm", line.reason, "agent-no-evidence-of-its-own"))
            else:
                taken.append((claim, fact))
        return taken, refused


def sources(subjects: Sequence[Subject], desk: Desk) -> str:
    """The sheet and where each test is written, for a model without tools."""
    each = max(CHARACTERS * 4 // max(len(subjects), 1), 800)
    told = [desk.show_device()]
    for one in subjects:
        desk.seen.add(one.id.file)
        lines = desk.lines(one.id.file) or []
        start = max(one.test.line - 1, 0)
        told.append(f"{one.id}\n{data(chr(10).join(lines[start : start + SOURCE_LINES])[:each])}")
    return "\n\n".join(told)
