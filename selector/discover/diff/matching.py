"""Which test of the new release is which of the old one, when its id is another one.

A body that says something and is found once on either side is the same test. Where it is found more often (``pass``,
a one-line call) the names around it decide, and where they do not, nothing is claimed. What is left is matched by its
name in classes that took over others' tests.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from selector.model import TestId

Move = Literal["method renamed", "class renamed", "class split", "classes merged", "file moved", "moved"]


@dataclass(frozen=True, slots=True)
class Face:
    """How a test is recognised. ``body``: hash without its name; ``deep``: hash of everything it reaches; ``lines``:
    how long it is."""

    body: str
    deep: str
    lines: int


SAYS_LITTLE = 3
"""lines up to which two tests of nothing else in common may have the same body by chance"""


def pairs(gone: Mapping[TestId, Face], new: Mapping[TestId, Face]) -> dict[TestId, TestId]:
    """new id -> old id."""
    found: dict[TestId, TestId] = {}
    left_old, left_new = dict(gone), dict(new)

    def take(one: TestId, was: TestId) -> None:
        found[one] = was
        del left_new[one], left_old[was]

    for face in (lambda f: f.deep, lambda f: f.body):
        olds, news = _by(left_old, face), _by(left_new, face)
        for key in olds.keys() & news.keys():
            for one, was in list(_closest(news[key], olds[key])):
                if left_new[one].lines > SAYS_LITTLE or one.cls == was.cls or one.method == was.method:
                    take(one, was)
    heirs = _heirs(found)
    by_place: dict[tuple[str, str], dict[str, TestId]] = defaultdict(dict)
    for one in left_new:
        by_place[one.file, one.cls][one.method] = one
    for was in list(left_old):
        candidates = [
            by_place[place][was.method] for place in heirs[was.file, was.cls] if was.method in by_place[place]
        ]
        candidates = [one for one in candidates if one in left_new]
        if len(candidates) == 1:
            take(candidates[0], was)
    return found


def moves(found: Mapping[TestId, TestId], kept: Iterable[TestId]) -> dict[TestId, Move]:
    """What happened to each matched test: seen by itself, and by where the other tests of its class went."""
    went: dict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
    came: dict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
    pairs_ = [*found.items(), *((one, one) for one in kept)]
    for one, was in pairs_:
        went[was.file, was.cls].add((one.file, one.cls))
        came[one.file, one.cls].add((was.file, was.cls))
    return {one: _move(one, was, went, came) for one, was in found.items()}


_Places = Mapping[tuple[str, str], set[tuple[str, str]]]


def _move(one: TestId, was: TestId, went: _Places, came: _Places) -> Move:
    if (one.file, one.cls) == (was.file, was.cls):
        return "method renamed"
    if one.method != was.method:
        return "moved"
    if len(went[was.file, was.cls]) > 1:
        return "class split"
    if len(came[one.file, one.cls]) > 1:
        return "classes merged"
    return "class renamed" if one.file == was.file else ("file moved" if one.cls == was.cls else "moved")


def _by(faces: Mapping[TestId, Face], face: Callable[[Face], str]) -> dict[str, list[TestId]]:
    found: dict[str, list[TestId]] = defaultdict(list)
    for test, value in faces.items():
        found[face(value)].append(test)
    return found


_NEAR: tuple[Callable[[TestId], object], ...] = (
    lambda t: (t.cls, t.method),
    lambda t: (t.file, t.cls),
    lambda t: (t.file, t.method),
    lambda t: t.method,
)


def _closest(news: list[TestId], olds: list[TestId]) -> Iterator[tuple[TestId, TestId]]:
    """Pairs of tests with the same face. One on each side are a pair; of several, those that are each other's only
    nearest by name."""
    if len(news) == len(olds) == 1:
        yield news[0], olds[0]
        return
    for near in _NEAR:
        a, b = _unique(news, near), _unique(olds, near)
        for key in a.keys() & b.keys():
            yield a[key], b[key]
            news, olds = [t for t in news if t != a[key]], [t for t in olds if t != b[key]]


def _unique(tests: list[TestId], near: Callable[[TestId], object]) -> dict[object, TestId]:
    counts = Counter(near(t) for t in tests)
    return {near(t): t for t in tests if counts[near(t)] == 1}


def _heirs(found: Mapping[TestId, TestId]) -> dict[tuple[str, str], list[tuple[str, str]]]:
    """class of the old release -> classes of the new one that hold its tests, most of them first."""
    counts: dict[tuple[str, str], Counter[tuple[str, str]]] = defaultdict(Counter)
    for one, was in found.items():
        counts[was.file, was.cls][one.file, one.cls] += 1
    heirs: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    heirs.update({was: [place for place, _ in counter.most_common()] for was, counter in counts.items()})
    return heirs
