"""The deterministic agent: always there, and what every other agent falls back to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from selector.agents.port import Asked, Suspect
from selector.triage.subject import Opinion, Ruling, Subject

if TYPE_CHECKING:
    from selector.discover import Discovery
    from selector.model import Change, Tree

KEPT_CONFIDENCE = 0.5


class RulesAgent:
    """Keeps what the rules are unsure of: a wrong keep costs seconds, a wrong drop costs a regression."""

    name = "rules"

    def answer(self, subject: Subject, asked: Opinion) -> Opinion:
        """The opinion as RELEVANT, with no more confidence than the rule that asked had."""
        reason = f"kept, since nothing proves that it is not for {subject.capability.device}: {asked.reason}"
        confidence = min(asked.confidence, KEPT_CONFIDENCE)
        return replace(asked, ruling=Ruling.RELEVANT, reason=reason, confidence=confidence, by=self.name)

    def answers(self, asked: Sequence[Asked], controls: Sequence[Subject]) -> list[Opinion]:
        """``answer`` for each."""
        return [self.answer(one.subject, one.opinion) for one in asked]

    def suspects(self, found: Discovery, change: Change, head: Tree) -> Sequence[Suspect]:
        """None: what rules can say, stage 1 has said."""
        return ()
