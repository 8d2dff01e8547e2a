"""Who answers where rules are unsure. *rules* is deterministic, offline and always there."""

from selector.agents.port import TriageAgent
from selector.agents.rules import RulesAgent

__all__ = ["RulesAgent", "TriageAgent"]
