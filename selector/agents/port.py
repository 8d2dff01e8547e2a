"""What the stages want of an agent. Whatever it says, evidence and the rules' floor beat it (docs/agents.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from selector.discover.findings import EDITED_CODES
from selector.model import Evidence, TestId

if TYPE_CHECKING:
    from selector.discover import Discovery
    from selector.model import Change, Tree
    from selector.triage.subject import Opinion, Subject

SUSPECTED = "agent-impact"
"""the discover code of a test that an agent alone put into a plan"""
MUST_RUN = EDITED_CODES | {"unreadable-test-file"}
"""discover codes of tests that no agent may drop"""
DROPPED = "agent-drop"
"""the triage code of a test that an agent dropped and a critic agreed to drop"""
CONFIRMS = "critic"
"""who must have agreed before a drop counts: ``by`` of such an opinion"""


class Asked(NamedTuple):
    """A test that the rules are not sure of, with what they say."""

    subject: Subject
    opinion: Opinion


@dataclass(frozen=True, slots=True)
class Suspect:
    """A test that a change may break though no rule finds a way from one to the other. ``evidence``: what the agent
    showed for it, checked against the tree."""

    test: TestId
    reason: str
    evidence: tuple[Evidence, ...]


class TriageAgent(Protocol):
    """Answers where the rules are unsure."""

    @property
    def name(self) -> str: ...

    def answers(self, asked: Sequence[Asked], controls: Sequence[Subject]) -> list[Opinion]:
        """An opinion that is not ASK for each of ``asked``, in its order, with ``by`` set to who holds it.

        ``controls``: tests of the same selection that the rules are sure are relevant. Who drops one is not believed.
        """
        ...


class Agent(TriageAgent, Protocol):
    """The same, and a guess where stage 1 finds no way from a changed file to tests."""

    def suspects(self, found: Discovery, change: Change, head: Tree) -> Sequence[Suspect]:
        """Tests beside, or among, those that stage 1 found; only asked where something could not be mapped."""
        ...
