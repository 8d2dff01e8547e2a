"""How a test stands on trunk: told apart once (:mod:`selector.plan.trunk`), for modes and for proposals alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from selector.model import Mode, VariantResult
from selector.plan.tolerance import Tolerance

Kind = Literal["passes", "as-expected", "promotable", "comes-and-goes", "broke", "limit", "rough", "fails"]
"""passes: never failed; as-expected: a config expects failures, and some came; promotable: a config expects
failures, and none came; comes-and-goes: passed and failed by turns; broke: passed, and fails ever since; limit:
every failure names a limit of the device; rough: every failure is off by no more than rounding; fails: every time,
for another reason"""
EXPECTS_FAILURE = (Mode.XFAIL, Mode.XFAIL_STRICT)


@dataclass(frozen=True, slots=True)
class Enough:
    """How much it takes: ``runs`` of a test, on ``commits`` different ones, before anything follows from them."""

    runs: int = 5
    commits: int = 3


@dataclass(frozen=True, slots=True)
class Run:
    """What one run showed of one test: the results of its variants, on ``commit``; ``full``: it was to run all of them,
    where a comparison with a base runs those alone that failed elsewhere."""

    commit: str
    results: Sequence[VariantResult]
    full: bool = True


@dataclass(frozen=True, slots=True)
class Standing:
    """``runs``: those that count, newest first, of which ``bad`` failed; ``streak``: how many of the newest failed
    without a break; ``commits``: how many those were run on (all of the runs, where the newest passed); ``failed``:
    failures, newest first; ``whole``: in every run of the streak, every variant that was executed failed, and
    ``full``: one of them was to run all variants; ``failing``: variants that failed in all of them; ``limits``:
    (mode, reason) of each failure; ``close``: the tolerance that would have been enough."""

    kind: Kind
    runs: tuple[Run, ...]
    bad: int = 0
    streak: int = 0
    commits: int = 0
    failed: tuple[VariantResult, ...] = ()
    whole: bool = False
    full: bool = False
    failing: tuple[str, ...] = ()
    limits: tuple[tuple[str, str], ...] = ()
    close: Tolerance | None = None

    @property
    def told(self) -> str:
        """All runs, as evidence."""
        commits = list(dict.fromkeys(run.commit for run in self.runs))
        return f"{len(self.runs)} runs on {len(commits)} commits, the newest {commits[0][:10]}"

    def plenty(self, enough: Enough) -> bool:
        """Whether what the newest runs agree on is more than chance or one commit's fault."""
        return (self.streak or len(self.runs)) >= enough.runs and self.commits >= enough.commits

    @property
    def limit(self) -> tuple[Mode, str]:
        """The mode and the reason of a ``limit``: skip where the test's process ends or hangs."""
        mode = Mode.SKIP if "skip" in {mode for mode, _ in self.limits} else Mode.XFAIL
        return mode, "; ".join(sorted({reason for _, reason in self.limits}))

    @property
    def first_words(self) -> str:
        """Of the newest failure."""
        newest = self.failed[0]
        return (newest.message or newest.outcome.value).splitlines()[0][:160]
