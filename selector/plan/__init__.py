"""Stage 3: how is it to run? See docs/plan.md."""

from selector.plan.model import Budget, History, RelevantTest, WorkerOffer
from selector.plan.planner import plan
from selector.plan.runtime import Part, choose_runtime, part_of

__all__ = ["Budget", "History", "Part", "RelevantTest", "WorkerOffer", "choose_runtime", "part_of", "plan"]
