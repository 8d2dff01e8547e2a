"""What became of a question: what was taken, what was refused and why, what it used, and what was said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from selector.agents.budget import Used
from selector.agents.prompts import VERSION
from selector.agents.scrub import Scrubber, cut
from selector.model import Stage

ENTRY = 6_000
"""characters kept of one message of a transcript"""
TRANSCRIPT = 200_000
"""characters kept of all of them"""

CODES = {
    "agent-answered": "answered, and its lines were looked at one by one",
    "agent-cached": "the same question was answered before",
    "agent-timeout": "no answer within the seconds that it had",
    "agent-budget": "its steps, tokens or money were used up",
    "agent-rate-limited": "the endpoint has no room for more requests",
    "agent-unavailable": "the endpoint cannot be reached, or fails",
    "agent-rejected": "the endpoint does not take the request or the key",
    "agent-no-sheet": "what came back is not of the form that was asked for",
    "agent-broke": "a fault of the agent's own",
}
"""how a question ended"""
REFUSALS = {
    "agent-unknown-id": "it names a test, failure or file that was not asked about or does not exist",
    "agent-twice": "it was answered before, in the same sheet",
    "agent-quote-not-found": "the text that it quotes does not stand there",
    "agent-no-ground": "a drop without one of the grounds that can be checked",
    "agent-ground-unproven": "the source and the sheet do not show that the ground holds",
    "agent-no-control": "no test is known to be relevant, so nothing shows whether its drops can be believed",
    "agent-failed-control": "it drops tests that are known to be relevant, so none of its drops is believed",
    "agent-not-confirmed": "the critic does not agree",
    "agent-critic-failed-control": "the critic agrees to drop tests that are known to be relevant",
    "agent-no-evidence-of-its-own": "the critic shows nothing but what the first agent showed",
    "agent-no-answer": "it left the test out",
    "agent-rules-say-no": "the rules are sure that the test is not for the device, or the configs do not run it",
    "agent-no-room": "there is no room for more tests than were selected",
    "agent-environment-fault": "the log blames the run's own environment, which is no limit of the device",
    "agent-edit-impossible": "the config cannot be edited so, or says something else afterwards",
}
"""why a line was not taken"""


class Unanswered(Exception):
    """A question that came to no sheet. ``code``: one of CODES; the message has no secrets and no upstream text."""

    def __init__(self, code: str, message: str, transcript: Sequence[dict[str, str]] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.transcript = list(transcript)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a sheet: ``subject`` what it is about, ``said`` what it says. ``code`` '' for what was taken."""

    subject: str
    said: str
    reason: str = ""
    code: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """One question. ``agent``: model or critic; ``code`` and ``reason``: how it ended."""

    stage: Stage
    agent: str
    model: str
    prompt_version: str
    code: str
    reason: str
    used: Used
    taken: tuple[Line, ...] = ()
    refused: tuple[Line, ...] = ()
    transcript: tuple[dict[str, str], ...] = ()
    abilities: str = ""


@dataclass
class Journal:
    """The records of one run, in order. Everything that goes in is scrubbed and bounded here once more."""

    scrub: Scrubber
    records: list[Record] = field(default_factory=list)

    def add(
        self,
        stage: Stage,
        agent: str,
        model: str,
        code: str,
        reason: str,
        used: Used,
        taken: Sequence[Line] = (),
        refused: Sequence[Line] = (),
        transcript: Sequence[dict[str, str]] = (),
        abilities: str = "",
    ) -> None:
        self.records.append(
            Record(
                stage,
                agent,
                model,
                VERSION,
                code,
                cut(self.scrub(reason), 500),
                used,
                tuple(map(self._line, taken)),
                tuple(map(self._line, refused)),
                bounded(transcript, self.scrub),
                abilities,
            )
        )

    def unanswered(
        self, stage: Stage, agent: str, model: str, exc: Unanswered, used: Used, refused: Sequence[Line] = ()
    ) -> None:
        """A question that came to no sheet; ``refused``: what is therefore not taken."""
        self.add(stage, agent, model, exc.code, str(exc), used, (), refused, exc.transcript)

    def _line(self, line: Line) -> Line:
        return Line(
            cut(self.scrub(line.subject), 500), cut(self.scrub(line.said), 200), cut(self.scrub(line.reason), 500),
            line.code,
        )  # fmt: skip


def bounded(transcript: Sequence[dict[str, str]], scrub: Scrubber) -> tuple[dict[str, str], ...]:
    """The messages from the first on, each shortened, until they are too many; then how many were left out."""
    kept: list[dict[str, str]] = []
    total = 0
    for at, message in enumerate(transcript):
        short = {key: cut(scrub(value), ENTRY) for key, value in message.items()}
        total += sum(map(len, short.values()))
        if total > TRANSCRIPT:
            kept.append({"role": "note", "text": f"{len(transcript) - at} more messages are not kept"})
            break
        kept.append(short)
    return tuple(kept)


def to_values(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """Lines as plain maps."""
    return [{"subject": x.subject, "said": x.said, "reason": x.reason, "code": x.code} for x in lines]
