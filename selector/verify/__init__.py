"""Stage 4: what did running it show? See docs/verify.md."""

from selector.verify.faults import environment_fault
from selector.verify.judge import fails, needs_base, needs_base_tests
from selector.verify.model import ShardProblem, report_problems
from selector.verify.verdict import unproven, verify

__all__ = [
    "ShardProblem",
    "environment_fault",
    "fails",
    "needs_base",
    "needs_base_tests",
    "report_problems",
    "unproven",
    "verify",
]
