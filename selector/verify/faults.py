"""Which environment fault a failed variant has."""

from __future__ import annotations

from selector.faults import KILLED, MEANING, environment_fault
from selector.model import Outcome, VariantResult

__all__ = ["MEANING", "environment_fault", "fault_of"]


def fault_of(result: VariantResult) -> str | None:
    """The environment fault behind a failed variant."""
    fault = environment_fault(result.message, result.log_tail)
    if fault is None and result.outcome is Outcome.CRASHED and KILLED.search(result.message or ""):
        return "oom-killer"  # nobody else sends SIGKILL to a test: our own limit is reported as timed out
    return fault
