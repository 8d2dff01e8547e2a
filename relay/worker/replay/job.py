"""What a replay's host process is told, and how it is talked to. Imports no torch."""

from __future__ import annotations

import base64
import hashlib
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from selector.model import TestId
from selector.replay.model import Fault

MEMORY_MB = 12288


@dataclass(frozen=True, slots=True)
class HostJob:
    """``site``: folder of the installed torch package; ``configs``: the device's; ``share``: the part of a file's
    variants that the pool takes, for files with more than ``least`` of them, at most ``most`` a file; ``keys``: a pool
    that was taken before."""

    tree: Path
    site: Path
    configs: Path
    tests: tuple[TestId, ...]
    faults: tuple[Fault, ...]
    seed: str
    share: float
    least: int
    most: int
    keys: tuple[str, ...] | None = None

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(test.file for test in self.tests))

    def pack(self) -> bytes:
        return base64.b64encode(pickle.dumps(self))

    @staticmethod
    def unpack(data: bytes) -> HostJob:
        """Reads what this user's own replay packed; nothing else may be given to it."""
        job = pickle.loads(base64.b64decode(data))
        assert isinstance(job, HostJob)
        return job


def share_of(count: int, job: HostJob) -> float:
    """The part of a file's ``count`` variants that is taken."""
    if count <= job.least:
        return 1.0
    return min(1.0, max(job.least, min(count * job.share, job.most)) / count)


def taken(seed: str, name: str, share: float) -> bool:
    """Whether a name is in a sample: by its hash alone, so that every run of a seed takes the same."""
    digest = hashlib.blake2b(f"{seed} {name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") < share * 2**64


@dataclass(frozen=True, slots=True)
class Order:
    """Variants to run, in order, under a fault (``fault``: its number in the job; None: none). ``stop``: end with the
    first that fails. ``probe``: say which faults' statements each variant reaches;
    ``trace``: which functions of torch and which operators it runs. Seconds of wall clock."""

    keys: Sequence[str]
    fault: int | None = None
    stop: bool = True
    probe: bool = False
    trace: bool = False
    variant_s: float = 30.0
    total_s: float = 60.0
