"""Failures by cause: what is left of a message when all that varies from variant to variant is taken out, and where in
upstream's code it was raised."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence

from selector.model import Cause, CauseGroup, FailureKind, VariantResult
from selector.verify.text import clean

TITLE = 200
# the runner ends a message with the stack, innermost first: (at torch/_refs/__init__.py:12, from test/test_x.py:30)
_STACK = re.compile(r"\(at (?P<frames>[^()\n]+:\d+(?:, from [^()\n]+:\d+)*)\)\s*$")
_DTYPES = r"(?:u?int(?:8|16|32|64)|b?float(?:8\w*|16|32|64)|double|half|long|complex(?:32|64|128)|bool)"
_VARYING: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "ADDRESS"),
    (re.compile(rf"\b(?:torch\.)?{_DTYPES}\b", re.IGNORECASE), "DTYPE"),
    (re.compile(r"\btest_\w+"), "TEST"),
    (re.compile(r"(?:/[\w.+-]+){2,}"), "PATH"),
    (re.compile(r"[-+]?\b\d+(?:\.\d+)?(?:e[-+]?\d+)?%?"), "N"),
    (re.compile(r"\b(?:nan|inf)\b", re.IGNORECASE), "N"),
    (re.compile(r"[\[(](?:\s*N\s*,?)+[\])]"), "NUMBERS"),
)
_TESTING = ("torch/testing/", "torch/_dynamo/", "_pytest/", "unittest/", "pytest")


def stack_of(message: str | None) -> tuple[str, ...]:
    """``path:line`` of the stack that a message ends with, innermost first; () where it has none."""
    found = _STACK.search(message or "")
    return tuple(found["frames"].split(", from ")) if found else ()


def frame_of(message: str | None) -> str:
    """The innermost place that is not the test library's: where it comes from, not where it was noticed."""
    stack = stack_of(message)
    return next((f for f in stack if not f.startswith(_TESTING)), stack[0] if stack else "")


def normalised(message: str | None) -> str:
    """A message without numbers, dtypes, addresses, paths and tests' names: one line of at most TITLE characters."""
    text = _STACK.sub("", message or "")
    for pattern, word in _VARYING:
        text = pattern.sub(word, text)
    return clean(text, TITLE)


def signature(result: VariantResult) -> str:
    """The same for failures with one cause, at this commit and at others: lines move, files mostly do not."""
    return _digest(normalised(result.message), frame_of(result.message).rpartition(":")[0])


def group(causes: Iterable[tuple[Cause, str]]) -> tuple[CauseGroup, ...]:
    """Causes (each with its whole message) of one kind, message and place together, in the order of their first."""
    found: dict[tuple[FailureKind, str, str], list[Cause]] = {}
    for cause, message in causes:
        found.setdefault((cause.kind, normalised(message), frame_of(message)), []).append(cause)
    return tuple(
        CauseGroup(_digest(kind, title, frame), kind, title, frame, tuple(c.key for c in members))
        for (kind, title, frame), members in found.items()
    )


def representatives(failing: Sequence[VariantResult], most: int) -> list[VariantResult]:
    """At most ``most`` of the failures: one of each cause, then a second of each, and so on."""
    by_cause: dict[str, list[VariantResult]] = {}
    for result in failing:
        by_cause.setdefault(signature(result), []).append(result)
    rounds = max((len(members) for members in by_cause.values()), default=0)
    in_turn = [members[i] for i in range(rounds) for members in by_cause.values() if i < len(members)]
    return in_turn[:most]


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
