"""Decisions that say nothing about engagement, each with a reason that a program can check.

An exclusion goes by the decision and by evidence alone, never by what triage says: agreeing rows are excluded as well
as disagreeing ones.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from selector.model import Mode, TestId
from selector.triage.decisions import NOT_ENGAGED, Decided
from selector.triage.evidence import Engagement

_FAULT = re.compile(
    r"\bModuleNotFoundError\b|\bFileNotFoundError\b|\b[Nn]o space left\b|\b[Cc]onnection (?:refused|reset)\b"
    r"|\b(?:missing|unavailable|absence of the|lack of the|absent)\s+(?:\W?\w+\W?\s+){0,3}"
    r"(?:executable|module|toolchain|tool|file|compiler|binary|dependenc\w+)\b"
    r"|\b(?:\w+)\s+not (?:detected|found|installed)\b|\bdue to dxp_standalone\b"
)
"""words of a run's own environment: a compiler, module or file that was not there"""
_CLASSIFIED = re.compile(
    r"\bclassified as\s+[\"'`]*(mandatory_success|xfail_strict|xfail|skip)\b|\bThey are (xfail(?=ed\b)|skip(?=ped\b))",
    re.IGNORECASE,
)
_DEVICE_FREE = re.compile(
    r"\b(?:do|does|did)(?: not|n't) (?:engage|interact with|utili[sz]e|use|leverage|invoke|involve)\b[^.|]*"
    r"\b(?:layer|backend|device)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Excluded:
    """``code`` is one of CODES; ``fact`` what was checked and found."""

    code: str
    fact: str


CODES: dict[str, str] = {
    "two-modes": "the configs give the test two modes",
    "skip-without-reason": "a skip without a comment: it does not say whether the test engages the device",
    "environment-fault": "an xfail that blames the environment of the run, not the device",
    "comment-against-mode": "the comment speaks for another mode than the entry has",
    "kernels-against-decision": "trusted runs counted kernels where none were to be, or none in a test that passed",
}


class Exclusions:
    """The exclusions of a set of decisions, with what trusted runs counted."""

    def __init__(self, decisions: Iterable[Decided], engaged: Mapping[TestId, Engagement]) -> None:
        self._modes: dict[TestId, dict[Mode, str]] = defaultdict(dict)
        self._engaged = engaged
        for decided in decisions:
            for test in decided.tests:
                self._modes[test].setdefault(decided.mode, f"{decided.config}:{decided.line}")

    def of(self, decided: Decided, test: TestId) -> Excluded | None:
        """Why a decision does not count for a test; None where it does."""
        modes = self._modes[test]
        if len(modes) > 1:
            fact = ", ".join(f"{mode.value} at {place}" for mode, place in sorted(modes.items()))
            return Excluded("two-modes", fact)
        counted = self._engaged.get(test)
        if counted is not None and counted.engages is not None and counted.engages is not decided.engages:
            return Excluded("kernels-against-decision", str(counted))
        if decided.mode is Mode.SKIP and not decided.comment:
            return Excluded("skip-without-reason", f"{decided.config}:{decided.line} has no comment")
        fault = _FAULT.search(decided.comment) if decided.mode in (Mode.XFAIL, Mode.XFAIL_STRICT) else None
        if fault is not None:
            return Excluded("environment-fault", f"the comment says {fault[0]!r}")
        against = _against(decided)
        return Excluded("comment-against-mode", against) if against else None


def _against(decided: Decided) -> str:
    """What the comment says that does not fit the entry's mode; '' where it fits."""
    if decided.mode is not Mode.SKIP:
        free = NOT_ENGAGED.search(decided.comment) or _DEVICE_FREE.search(decided.comment)
        if free is not None:
            return f"{decided.mode.value}, but the comment says {free[0]!r}"
    words = {(a or b).lower() for a, b in _CLASSIFIED.findall(decided.comment)}
    if words and decided.mode.value not in words:
        return f"{decided.mode.value}, but the comment says {', '.join(sorted(words))}"
    return ""
