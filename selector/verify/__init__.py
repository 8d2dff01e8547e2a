"""Stage 4: what did running it show? See docs/verify.md."""

from selector.verify.again import Again, Step, next_step
from selector.verify.faults import environment_fault
from selector.verify.flakes import FlakeRule
from selector.verify.judge import Judge, fails, needs_base, needs_base_tests
from selector.verify.model import ShardProblem, report_problems
from selector.verify.trusted import Quarantine, Sample, Trusted
from selector.verify.verdict import unproven, verify

__all__ = [
    "Again",
    "FlakeRule",
    "Judge",
    "Quarantine",
    "Sample",
    "ShardProblem",
    "Step",
    "Trusted",
    "environment_fault",
    "fails",
    "needs_base",
    "needs_base_tests",
    "next_step",
    "report_problems",
    "unproven",
    "verify",
]
