"""Which environment fault a failed variant has."""

from __future__ import annotations

from selector.faults import KILLED, MEANING, environment_fault
from selector.model import Outcome, VariantResult

__all__ = ["MEANING", "environment_fault", "fault_of", "told_fault"]


def told_fault(result: VariantResult) -> str | None:
    """The environment fault that a variant's message tells of, or the end of its log, however it ended."""
    return environment_fault(result.message, result.log_tail) or result.log_fault


def fault_of(result: VariantResult) -> str | None:
    """The environment fault behind a failed variant."""
    fault = told_fault(result)
    if fault is None and result.outcome is Outcome.CRASHED and KILLED.search(result.message or ""):
        return "oom-killer"  # nobody else sends SIGKILL to a test: our own limit is reported as timed out
    return fault
