"""Shards out of planned tests, by predicted seconds: short makespan, files together, what most likely fails first."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from selector.model import PlannedTest, ShardSpec, TestId
from selector.plan.ranking import FILE_SECONDS

MIN_SHARD_SECONDS = 5.0
"""Below that a shard's own cost outweighs what a second worker gains."""
NEAR = 1.05
"""Times the lower bound that a makespan may take for the sake of urgency."""


@dataclass(slots=True)
class _Piece:
    """Tests of one file that stay together. ``rank`` is the place of its first test in the plan's order."""

    rank: int
    tests: list[PlannedTest] = field(default_factory=list)
    seconds: float = FILE_SECONDS

    def add(self, item: PlannedTest) -> None:
        self.tests.append(item)
        self.seconds += item.est_seconds


@dataclass(frozen=True, slots=True)
class _Packed:
    """Pieces in shards, and what their makespan is over the lower bound (1.0: as good as can be)."""

    shards: tuple[tuple[_Piece, ...], ...]
    over: float

    @classmethod
    def of(cls, pieces: Sequence[_Piece], count: int, workers: int) -> _Packed:
        """Longest piece first to the shard that has least; the shards then by urgency as far as that costs little."""
        held: list[list[_Piece]] = [[] for _ in range(count)]
        least = [(0.0, index) for index in range(count)]
        for piece in sorted(pieces, key=lambda p: (-p.seconds, p.rank)):
            seconds, index = heapq.heappop(least)
            held[index].append(piece)
            heapq.heappush(least, (seconds + piece.seconds, index))
        bound = lower_bound([piece.seconds for piece in pieces], workers)
        urgent = sorted((tuple(shard) for shard in held), key=_rank)
        mean = sum(map(_seconds, urgent)) / count
        orders = (
            urgent,
            [urgent[0], *sorted(urgent[1:], key=lambda s: -max(_seconds(s), 1.25 * mean))],
            [urgent[0], *sorted(urgent[1:], key=lambda s: -_seconds(s))],
            sorted(urgent, key=lambda s: -_seconds(s)),
        )
        tried = [cls(tuple(order), makespan(list(map(_seconds, order)), workers) / bound) for order in orders]
        return next((one for one in tried if one.over <= NEAR), min(tried, key=lambda one: one.over))


def _seconds(shard: Sequence[_Piece]) -> float:
    return sum(piece.seconds for piece in shard)


def _rank(shard: Sequence[_Piece]) -> int:
    return min(piece.rank for piece in shard)


def pack(planned: Sequence[PlannedTest], workers: int, shard_seconds: float) -> tuple[ShardSpec, ...]:
    """Shards of about ``shard_seconds`` (0: as long as a worker's whole share), each in the plan's order of urgency.

    A file is cut only where it is longer than a shard. Pieces go longest first to the shard that has least, so that
    `makespan` on ``workers`` is within a few per cent of what no order can beat. They come by urgency, as far as
    that costs little: where some are much longer than the others, those come early.
    """
    if not planned:
        return ()
    workers = max(workers, 1)
    files = {item.test.file for item in planned}
    total = sum(p.est_seconds for p in planned) + FILE_SECONDS * len(files)
    share = max(total / workers, MIN_SHARD_SECONDS)
    target = min(shard_seconds, share) if shard_seconds > 0 else share
    pieces = _cut(planned, target)
    whole = sum(piece.seconds for piece in pieces)
    # a worker's share each is one round, though cutting files made the whole a little longer
    count = min(len(pieces), 1 if total <= target else workers if target == share else math.ceil(whole / target))
    if count > 1:
        count = min(len(pieces), math.ceil(count / workers) * workers)  # whole rounds: nobody waits for a last one
    best = _Packed.of(pieces, count, workers)
    while best.over > NEAR and count < len(pieces):
        count = min(len(pieces), count + workers)  # shorter shards leave less to wait for
        best = min(best, _Packed.of(pieces, count, workers), key=lambda packed: packed.over)
    rank = {item.test: place for place, item in enumerate(planned)}
    shards: list[ShardSpec] = []
    for held in best.shards:
        tests = sorted((item.test for piece in held for item in piece.tests), key=rank.__getitem__)
        shards.append(ShardSpec(len(shards), _by_file(tests), round(_seconds(held), 3)))
    return tuple(shards)


def makespan(seconds: Sequence[float], workers: int) -> float:
    """Seconds until the last of ``workers`` has ended, when each takes the next job as soon as it is free."""
    free = [0.0] * max(workers, 1)
    for job in seconds:
        heapq.heapreplace(free, free[0] + job)
    return max(free)


def lower_bound(seconds: Sequence[float], workers: int) -> float:
    """What no order of these jobs can beat: the longest of them, everybody's equal share, or, for every k, the k + 1
    shortest of the k * workers + 1 longest: some worker has that many of them."""
    workers = max(workers, 1)
    longest = sorted(seconds, reverse=True)
    crowded = (sum(longest[k * workers - k : k * workers + 1]) for k in range(1, (len(longest) - 1) // workers + 1))
    return max(max(seconds, default=0.0), sum(seconds) / workers, max(crowded, default=0.0))


def _cut(planned: Sequence[PlannedTest], target: float) -> list[_Piece]:
    """Each file as one piece, or as equal ones where it is longer than ``target``."""
    by_file: dict[str, list[tuple[int, PlannedTest]]] = {}
    for rank, item in enumerate(planned):
        by_file.setdefault(item.test.file, []).append((rank, item))
    pieces = []
    for group in by_file.values():
        seconds = sum(item.est_seconds for _, item in group)
        parts = min(len(group), max(1, math.ceil(seconds / max(target - FILE_SECONDS, 0.1))))
        cut = [_Piece(-1) for _ in range(parts)]
        for rank, item in sorted(group, key=lambda pair: -pair[1].est_seconds):
            least = min(cut, key=lambda piece: piece.seconds)
            least.add(item)
            least.rank = rank if least.rank < 0 else min(least.rank, rank)
        pieces += [piece for piece in cut if piece.tests]
    return pieces


def _by_file(tests: Sequence[TestId]) -> tuple[TestId, ...]:
    """In the order of urgency of the files, a file's tests together: it is imported once."""
    files: dict[str, list[TestId]] = {}
    for test in tests:
        files.setdefault(test.file, []).append(test)
    return tuple(test for group in files.values() for test in group)
