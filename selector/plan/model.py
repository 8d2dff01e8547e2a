"""What stage 3 takes besides the shared words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from selector.model import OpEntry, RuntimeKind, TestId
from selector.plan.standing import Standing


@dataclass(frozen=True, slots=True)
class RelevantTest:
    """A test that triage kept. ``codes`` are the discover codes, strongest first; ``weight`` 0..1 how directly the
    change reaches it; ``est_variants`` how many variants it will generate; ``slow`` marked slow by upstream; ``ops``:
    the op entries whose variants the change reaches (empty: all of its variants); ``draws``: the op database's entries
    that its variants come from (empty: it has none, or they are not known)."""

    test: TestId
    codes: tuple[str, ...]
    weight: float
    est_variants: int
    slow: bool = False
    ops: tuple[str, ...] = ()
    draws: tuple[OpEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkerOffer:
    """A torch that some live worker has, and the runtimes (``tests-only``, ``overlay``, ``pr-build``) it can run."""

    torch: str
    runtimes: tuple[str, ...]

    def has(self, kind: RuntimeKind) -> bool:
        return kind.value in self.runtimes


@dataclass(frozen=True, slots=True)
class Budget:
    """``seconds`` of wall time for the whole run, the length a shard aims at, and how many workers share the work."""

    seconds: float
    shard_seconds: float = 30.0
    workers: int = 1

    @property
    def capacity(self) -> float:
        """Seconds of all workers together."""
        return self.seconds * max(self.workers, 1)


@dataclass(frozen=True, slots=True)
class History:
    """What trusted runs showed: mean seconds per variant, by test and by file; ``touched``: whether the test ran a
    kernel on the device, of those whose kernels were counted; ``broke``: (times that it began to fail, runs);
    ``trunk``: how those tests stand that did not simply pass; ``recorded``: seconds of a file's mean test elsewhere
    (:mod:`selector.plan.times`), for files of which they showed nothing."""

    variant_seconds: Mapping[TestId, float] = field(default_factory=dict)
    file_variant_seconds: Mapping[str, float] = field(default_factory=dict)
    touched: Mapping[TestId, bool] = field(default_factory=dict)
    broke: Mapping[TestId, tuple[int, int]] = field(default_factory=dict)
    trunk: Mapping[TestId, Standing] = field(default_factory=dict)
    recorded: Mapping[str, float] = field(default_factory=dict)
