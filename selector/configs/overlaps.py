"""Which entry governs which test, over all tests of an upstream: entries that never do, pairs that contradict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product

from selector.configs.check import tie
from selector.configs.model import Place
from selector.configs.rank import Match, rank_key
from selector.configs.rules import ReuseConfigs
from selector.configs.tree import Suite, TestEntry
from selector.model import TestId


class Overlaps:
    """Looks at every test once. Ops and dtypes that no entry names behave alike: one stands for all of them."""

    def __init__(self, suites: Sequence[Suite], tests: Iterable[TestId]) -> None:
        self._entries = {id(e): e for s in suites for f in s.files for e in f.tests}
        self._governs: set[int] = set()
        self._matched: dict[int, TestEntry] = {}
        self._conflicts: dict[tuple[int, int], TestId] = {}
        configs = ReuseConfigs(suites)
        for test in tests:
            matches = configs.matches(test)
            for match in matches:
                self._matched[id(match.entry)] = match.entry
            if len(matches) == 1:
                self._governs.add(id(matches[0].entry))
            else:
                self._look(matches, test)

    def unreachable(self) -> Iterator[tuple[Place, str]]:
        """Entries that name tests and govern no variant of them, and have no edits that would hold all the same."""
        for key, entry in self._matched.items():
            edits = entry.ops.include or entry.ops.exclude or entry.dtypes.include or entry.dtypes.exclude
            if key not in self._governs and not (
                edits or entry.cpu_move or entry.no_grad or entry.tags or entry.bypass
            ):
                message = "this entry never governs: a more specific one, or an earlier one, names all of its tests"
                yield entry.place, message

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        """Pairs that are equally specific for a test and disagree, which their names alone do not show."""
        for (first, second), test in self._conflicts.items():
            one, two = self._entries[first], self._entries[second]
            if not {(n.cls, n.method) for n in one.names} & {(n.cls, n.method) for n in two.names}:
                said = f"{test.cls}::{test.method} is {two.mode.value} here and {one.mode.value} at {one.place}"
                yield two.place, said

    def _look(self, matches: list[Match], test: TestId) -> None:
        ops = ["", *sorted({i.name for m in matches for i in (*m.entry.ops.include, *m.entry.ops.exclude)})]
        dtypes = ["", *sorted({i.name for m in matches for i in (*m.entry.dtypes.include, *m.entry.dtypes.exclude)})]
        machines = sorted({p for m in matches for p in m.entry.platforms}) or [""]
        for op, machine in product(ops, machines):
            for dtype in dtypes:
                names, words = frozenset({op} - {""}), frozenset({dtype} - {""})
                best: Match | None = None
                for match in matches:
                    if any(i.name in names for i in match.entry.ops.exclude):
                        continue
                    if any(i.name in words for i in match.entry.dtypes.exclude):
                        continue
                    if match.entry.platforms and machine not in match.entry.platforms:
                        continue
                    if best is None or rank_key(match, names, words) > rank_key(best, names, words):
                        best = match
                if best is not None:
                    self._governs.add(id(best.entry))
        for i, first in enumerate(matches):
            for second in matches[i + 1 :]:
                if first.entry.mode is second.entry.mode or first.rank != second.rank:
                    continue
                if first.suite is second.suite and first.path_rank != second.path_rank:
                    continue  # within one config the more exact path decides
                if tie(first.entry, second.entry):
                    early, late = sorted((first, second), key=lambda m: m.order)
                    self._conflicts.setdefault((id(early.entry), id(late.entry)), test)
