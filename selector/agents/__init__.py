"""Who answers where rules are unsure. *rules* is deterministic, offline and always there; *model* may only propose.

Nothing here imports a model's library: ``selector.agents.model`` does, and only who hands a model in imports that.
"""

from selector.agents.port import Agent, Asked, Suspect, TriageAgent
from selector.agents.rules import RulesAgent

__all__ = ["Agent", "Asked", "RulesAgent", "Suspect", "TriageAgent"]
