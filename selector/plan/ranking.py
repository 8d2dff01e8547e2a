"""In which order tests run: the chance that one fails, for each second that finding it out costs.

    chance = weight x touch x (broke + 1) / (runs + 20)
    value  = chance / max(seconds + its share of importing its file, 0.05)

``weight`` is how directly the change reaches the test (discover), less where triage is unsure. ``touch`` is the
evidence that it touches the device: 1 where trusted runs counted kernels of it, a half where nobody has looked, a tenth
where they counted none. The rest is its history: how often it *began* to fail in so many trusted runs. One that only
goes on failing says nothing about a change. A test without a history counts as one that broke once in twenty runs.

What the change itself edits or adds runs first and is never cut.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from selector.model import TestId

FILE_SECONDS = 1.0
"""Importing and collecting a file, once a shard."""
PRIOR_BROKE, PRIOR_RUNS = 1, 20
TOUCHED, NOT_KNOWN, IDLE = 1.0, 0.5, 0.1
LEAST_SECONDS = 0.05
"""What is cheaper than a variant is not told apart: predictions are not that good."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """What a ranker sees of a test: ``must_run``: the change edits or adds it; ``weight`` 0..1; ``seconds`` of all its
    variants; ``mates``: tests of its file, itself included, that share importing it; ``touched``: None where nobody
    has looked; ``broke``: how often it began to fail in ``runs`` trusted runs; ``codes``: why it was
    selected, strongest first; ``limited``: to some of its op entries."""

    test: TestId
    must_run: bool
    weight: float
    seconds: float
    mates: int = 1
    touched: bool | None = None
    broke: int = 0
    runs: int = 0
    codes: tuple[str, ...] = ()
    limited: bool = False

    def seen(self) -> tuple[float | None, ...]:
        """What SEEN names, as plain numbers."""
        touched = None if self.touched is None else int(self.touched)
        numbers = (self.mates, touched, self.broke, self.runs, int(self.limited))
        return (int(self.must_run), round(self.weight, 6), round(self.seconds, 3), *numbers)

    @property
    def chance(self) -> float:
        """0..1: how probable it is that the test fails with this change."""
        touch = NOT_KNOWN if self.touched is None else TOUCHED if self.touched else IDLE
        history = (self.broke + PRIOR_BROKE) / (self.runs + PRIOR_RUNS)
        return min(max(self.weight, 0.0), 1.0) * touch * min(history, 1.0)

    @property
    def value(self) -> float:
        """Failures that a second of running it is expected to find."""
        return self.chance / max(self.seconds + FILE_SECONDS / max(self.mates, 1), LEAST_SECONDS)

    def told(self) -> str:
        """The value's parts as a sentence."""
        touch = {None: "not known to touch the device", True: "seen on the device", False: "seen idle"}[self.touched]
        history = f"began to fail {self.broke} times in {self.runs} runs" if self.runs else "no history"
        return f"chance {self.chance:.2%} (weight {self.weight:g}, {touch}, {history}), {self.value:.2%} a second"


SEEN = ("must_run", "weight", "seconds", "mates", "touched", "broke", "runs", "limited")
"""What is kept of a planned test beside its codes, for those who learn from it later"""


def ranked_of(test: TestId, codes: Sequence[str], seen: Mapping[str, float | None]) -> Ranked:
    """What rankers saw of a test, by the names of SEEN. KeyError, TypeError, ValueError for what was kept otherwise."""
    touched = seen["touched"]
    number = {name: float(value) for name, value in seen.items() if value is not None}
    return Ranked(
        test,
        bool(number["must_run"]),
        number["weight"],
        number["seconds"],
        int(number["mates"]),
        None if touched is None else bool(touched),
        int(number["broke"]),
        int(number["runs"]),
        tuple(codes),
        bool(number["limited"]),
    )


Ranker = Callable[[Ranked], tuple[float, ...]]
"""The key by which tests are sorted; equal ones go by name"""


def by_value(one: Ranked) -> tuple[float, ...]:
    """In force: expected value."""
    return (-one.value,)


def by_weight(one: Ranked) -> tuple[float, ...]:
    """On trial: how directly the change reaches a test, the cheap first."""
    return (-one.weight, one.seconds)


IN_FORCE: tuple[str, Ranker] = ("expected-value", by_value)


def arrange(tests: Sequence[Ranked], ranker: Ranker) -> list[Ranked]:
    """The must-run tests, then the others, each by the ranker."""
    return sorted(tests, key=lambda one: (not one.must_run, ranker(one), one.test))


def within(ordered: Sequence[Ranked], capacity: float) -> int:
    """How many of the ordered tests run in ``capacity`` seconds of all workers together: a prefix. Must-run tests run
    whatever they cost, and the first test always runs: a plan of nothing says nothing."""
    used = 0.0
    files: set[str] = set()
    for place, one in enumerate(ordered):
        used += cost(one, files)
        if used > capacity and place > 0 and not one.must_run:
            return place
        files.add(one.test.file)
    return len(ordered)


def cost(one: Ranked, files: set[str]) -> float:
    """Seconds, with the import of a file that is not among ``files``."""
    return one.seconds + (0.0 if one.test.file in files else FILE_SECONDS)


def must_run_seconds(ordered: Sequence[Ranked]) -> float:
    """What the must-run tests cost together."""
    used = 0.0
    files: set[str] = set()
    for one in ordered:
        if one.must_run:
            used += cost(one, files)
            files.add(one.test.file)
    return used
