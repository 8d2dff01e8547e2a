"""What triage wants of an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from selector.triage.subject import Opinion, Subject


class TriageAgent(Protocol):
    """Answers where the rules are unsure. An agent only proposes: evidence of kernels beats what it says."""

    @property
    def name(self) -> str: ...

    def answer(self, subject: Subject, asked: Opinion) -> Opinion:
        """An opinion that is not ASK, with ``by`` set to who holds it."""
        ...
