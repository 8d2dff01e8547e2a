"""What is known from runs without any unmerged change: results of trunk's commits, and quarantine.

Nothing else may exonerate a change: what an unmerged pull request showed decides that pull request alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from selector.model import TestId, VariantResult


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of a variant on a commit of trunk; ``at`` seconds since the epoch; ``signature`` of its failure."""

    commit: str
    failed: bool
    at: float
    signature: str = ""


@dataclass(frozen=True, slots=True)
class Quarantine:
    """A variant (or, with ``variant`` "", a test) whose flakes a person has taken note of, up to ``until`` (epoch)."""

    test: TestId
    variant: str
    reason: str
    until: float
    issue: str = ""

    def holds(self, result: VariantResult, now: float) -> bool:
        return now < self.until and self.test == result.test and self.variant in ("", result.variant)


@dataclass(frozen=True, slots=True)
class Trusted:
    """``samples`` by key (``file::Class::variant``), newest first; ``first_bad``: the commit that broke it, where that
    was found; ``now`` decides which quarantine still holds."""

    samples: Mapping[str, Sequence[Sample]] = field(default_factory=dict)
    first_bad: Mapping[str, str] = field(default_factory=dict)
    quarantined: Sequence[Quarantine] = ()
    now: float = 0.0

    def flaky(self, key: str) -> str | None:
        """Why the variant is known to fail now and then without any change: it did both on one commit of trunk, or
        failed between two commits on which it passed."""
        found = self.samples.get(key, ())
        by_commit: dict[str, set[bool]] = {}
        for sample in found:
            by_commit.setdefault(sample.commit, set()).add(sample.failed)
        both = next((commit for commit, seen in by_commit.items() if len(seen) == 2), None)
        failures = sum(s.failed for s in found)
        if both is not None:
            return f"failed {failures} of {len(found)} runs on trunk, and both passed and failed on {both[:10]}"
        turns = sum(1 for a, b in pairwise(found) if a.failed != b.failed)
        if turns >= 2 and not found[0].failed:
            return f"failed {failures} of {len(found)} runs on trunk, between commits on which it passed"
        return None

    def broken(self, key: str, signature: str) -> str | None:
        """Why trunk itself is to blame: the newest runs of trunk fail, and the newest as this failure does."""
        found = self.samples.get(key, ())
        if not found or not found[0].failed or found[0].signature != signature:
            return None
        streak = next((i for i, s in enumerate(found) if not s.failed), len(found))
        since = found[streak - 1].commit[:10]
        runs = f"{streak} runs" if streak > 1 else "run"
        verb = "fail" if streak > 1 else "fails"
        return f"the newest {runs} on trunk {verb} in the same way, since {since} at the latest"

    def origin(self, key: str) -> str:
        """`` (…)``: the commit of trunk that broke it, for the end of a sentence."""
        commit = self.first_bad.get(key)
        return f" (broken on trunk by {commit[:10]})" if commit else ""

    def quarantine(self, result: VariantResult) -> Quarantine | None:
        return next((q for q in self.quarantined if q.holds(result, self.now)), None)
