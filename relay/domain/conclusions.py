"""What a result means on the pull request: one table from what was found to a check run's conclusion and to whether
level 4 blocks the merge on it. Pure; docs/conclusions.md is this table for people, and a test keeps the two in step.

Upstream's merge gate refuses a merge while a check of a level 4 repository is not completed or is ``failure``; every
other conclusion lets it pass. So ``failure`` is kept for what the change is known to have broken.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Meaning:
    """``conclusion``: GitHub's word. ``blocks``: level 4 refuses the merge."""

    conclusion: str
    blocks: bool
    words: str


TABLE: dict[str, Meaning] = {
    "passed": Meaning("success", False, "everything that was asked for ran and passed"),
    "failed": Meaning("failure", True, "the change breaks something, and the base does not have it"),
    "infrastructure": Meaning("neutral", False, "the environment failed: nobody's fault, and nothing is proven"),
    "unproven": Meaning("neutral", False, "something failed, and nothing shows that the change did it"),
    "partial": Meaning("neutral", False, "what ran passed, and the budget left tests out"),
    "not-exercised": Meaning("neutral", False, "what ran passed, and the runtime does not contain all of the change"),
    "nothing-run": Meaning("neutral", False, "no test was run"),
    "no-response": Meaning("timed_out", False, "the downstream was told and never reported"),
    "timed-out": Meaning("timed_out", False, "a job began and never reported its end"),
    "cancelled": Meaning("cancelled", False, "nobody wants the answer any more"),
    "skipped": Meaning("skipped", False, "the downstream left it out"),
    "action-required": Meaning("action_required", False, "the downstream waits for a person"),
    "neutral": Meaning("neutral", False, "the downstream says neither yes nor no"),
    "hidden": Meaning("neutral", False, "the label was taken away: the result is no longer shown"),
}

BY_CODE: dict[str, str] = {
    "verify-passed": "passed",
    "verify-regression": "failed",
    "verify-import-regression": "failed",
    "verify-new-test-fails": "failed",
    "verify-xpassed-strict": "failed",
    "verify-made-flaky": "failed",
    "verify-infrastructure": "infrastructure",
    "verify-unconfirmed": "unproven",
    "verify-lab-conflict": "unproven",
    "verify-flaky-unproven": "unproven",
    "verify-device-limit": "unproven",
    "verify-incomplete": "unproven",
    "verify-partial": "partial",
    "verify-not-exercised": "not-exercised",
    "verify-nothing-to-run": "nothing-run",
    "verify-nothing-ran": "nothing-run",
    "verify-nothing-passed": "unproven",
    "verify-unengaged": "unproven",
    "select-failed": "infrastructure",
    "no-queue": "infrastructure",
    "conclude-failed": "infrastructure",
    "no-response": "no-response",
    "job-timed-out": "timed-out",
}
"""Reason codes of runs (docs/reason-codes.md) and what they are."""

_BY_CONCLUSION = {
    "success": "passed",
    "failure": "failed",
    "timed_out": "timed-out",
    "cancelled": "cancelled",
    "skipped": "skipped",
    "action_required": "action-required",
    "neutral": "neutral",
}


def of_run(code: str | None, conclusion: str | None) -> str:
    """What a run came to, by its reason code, else by its conclusion (a downstream's own CI gives only that)."""
    if code in BY_CODE and TABLE[BY_CODE[code]].conclusion == conclusion:
        return BY_CODE[code]
    return _BY_CONCLUSION.get(conclusion or "", "neutral")


def blocks(level: str, status: str, conclusion: str | None) -> bool:
    """Whether a check run of a downstream at ``level`` keeps upstream's merge gate shut."""
    return level == "L4" and (status != "completed" or conclusion == "failure")


def gate_sentence(level: str, status: str, conclusion: str | None) -> str:
    """The line of a check run that says what it means for the merge; empty below level 3."""
    if level == "L3":
        return "Level 3: shown for information, it blocks nothing."
    if level != "L4":
        return ""
    if status != "completed":
        return "Level 4: the merge waits for this."
    if blocks(level, status, conclusion):
        return "Level 4: this blocks the merge."
    return "Level 4: this does not block the merge."
