"""The deterministic agent: always there, and what every other agent falls back to."""

from __future__ import annotations

from dataclasses import replace

from selector.triage.subject import Opinion, Ruling, Subject

KEPT_CONFIDENCE = 0.5


class RulesAgent:
    """Keeps what the rules are unsure of: a wrong keep costs seconds, a wrong drop costs a regression."""

    name = "rules"

    def answer(self, subject: Subject, asked: Opinion) -> Opinion:
        """The opinion as RELEVANT, with no more confidence than the rule that asked had."""
        reason = f"kept, since nothing proves that it is not for {subject.capability.device}: {asked.reason}"
        confidence = min(asked.confidence, KEPT_CONFIDENCE)
        return replace(asked, ruling=Ruling.RELEVANT, reason=reason, confidence=confidence, by=self.name)
