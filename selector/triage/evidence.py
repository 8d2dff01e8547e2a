"""Kernels that trusted runs counted, test by test: what rules and people say is measured against them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from selector.errors import SelectorError
from selector.model import Outcome, TestId

_ENDED = frozenset({Outcome.PASSED, Outcome.XPASSED})


class EvidenceError(SelectorError):
    """A file of results that cannot be used as evidence."""

    code = "evidence-unusable"


@dataclass(frozen=True, slots=True)
class Engagement:
    """What the variants of one test did on the device. ``variants``: all that were counted; ``passed``: those that ran
    to their end without a fault; ``skipped``: those that skipped themselves; ``kernels``: of all of them."""

    variants: int = 0
    passed: int = 0
    skipped: int = 0
    kernels: int = 0

    @property
    def engages(self) -> bool | None:
        """True: the device ran kernels. False: every variant passed, or skipped itself, and none did. None: it proves
        nothing, since a failure may have come before the first kernel."""
        if self.kernels > 0:
            return True
        return False if self.passed and self.passed + self.skipped == self.variants else None

    def __str__(self) -> str:
        ended = f"{self.passed} passed, {self.skipped} skipped themselves"
        return f"{self.kernels} kernels in {self.variants} variants: {ended}"


def read_evidence(text: str, name: str) -> list[Mapping[str, Any]]:
    """The result lines of ``relay run --out``. Raises EvidenceError, with the line, for anything else."""
    rows: list[Mapping[str, Any]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            TestId.parse(row["test"])
            Outcome(row["outcome"])
        except (ValueError, LookupError, TypeError) as exc:
            raise EvidenceError(f"{name}:{number}: no result line: {exc}", "give what relay run --out wrote") from exc
        rows.append(row)
    return rows


def engagements(rows: Iterable[Mapping[str, Any]]) -> dict[TestId, Engagement]:
    """The counts by test. Results without a count (``kernels`` null), and those that a config skipped, say nothing."""
    found: dict[TestId, Engagement] = {}
    for row in rows:
        kernels, outcome = row.get("kernels"), Outcome(row["outcome"])
        if not isinstance(kernels, int) or outcome is Outcome.SKIPPED:
            continue
        test = TestId.parse(row["test"])
        was = found.get(test, Engagement())
        passed = outcome in _ENDED
        found[test] = Engagement(
            was.variants + 1,
            was.passed + passed,
            was.skipped + (outcome is Outcome.SELF_SKIPPED),
            was.kernels + kernels,
        )
    return found
