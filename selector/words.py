"""The closed vocabularies that all four stages share: each word is a value of the wire and of the database, too."""

from __future__ import annotations

from enum import StrEnum


class Stage(StrEnum):
    """One of the four questions; see docs/selector.md."""

    DISCOVER = "discover"
    TRIAGE = "triage"
    PLAN = "plan"
    VERIFY = "verify"


class Mode(StrEnum):
    """How a variant is expected to behave; the vocabulary of the YAML reuse format."""

    MANDATORY_SUCCESS = "mandatory_success"
    XFAIL = "xfail"
    XFAIL_STRICT = "xfail_strict"
    SKIP = "skip"


class Outcome(StrEnum):
    """What one executed (or deliberately not executed) variant did.

    SKIPPED is the config's decision; SELF_SKIPPED is the test's own ``skipTest`` and proves nothing under
    ``mandatory_success``. XPASSED under ``xfail_strict`` counts as a failure.
    """

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    SKIPPED = "skipped"
    SELF_SKIPPED = "self_skipped"
    XFAILED = "xfailed"
    XPASSED = "xpassed"
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"


FAILED = (Outcome.FAILED, Outcome.ERROR, Outcome.CRASHED, Outcome.TIMED_OUT)
"""Outcomes of a variant that failed, whatever was expected of it."""


class RuntimeKind(StrEnum):
    """Whose torch runs a shard; see docs/runtimes.md."""

    TESTS_ONLY = "tests-only"
    OVERLAY = "overlay"
    PR_BUILD = "pr-build"


class Conclusion(StrEnum):
    """Conclusions of a run, a subset of GitHub's check run conclusions."""

    SUCCESS = "success"
    FAILURE = "failure"
    NEUTRAL = "neutral"


class Side(StrEnum):
    """Which commit a shard ran, and why: the change (HEAD) or what it is compared with (BASE); AGAIN and BASE_AGAIN are
    the same commits once more: failing variants alone, each in a fresh process, several times. TRACE: a commit of trunk
    whose tests are followed, which takes them longer; what came of them counts nowhere."""

    HEAD = "head"
    BASE = "base"
    AGAIN = "again"
    BASE_AGAIN = "base-again"
    TRACE = "trace"
