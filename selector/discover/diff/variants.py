"""Variants of two releases, op by dtype by test, as both torches' own op databases tell them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from selector.discover.diff.compare import Difference, Side
from selector.discover.opindex import OpIndex
from selector.discover.records import UNKNOWN, DbUse, MethodRecord
from selector.model import TestId

Cell = tuple[str, str]
"""an op (``add.scalar``, or a module) and a dtype; "" where the test has none"""


@dataclass(frozen=True, slots=True)
class VariantCounts:
    """``kept``: variants of both releases; ``tests``: how many tests have added or gone ones; ``by_rule``: tests whose
    variants no database tells (lists or dtypes that are not literal) and that count as one each."""

    added: int
    gone: int
    kept: int
    tests: int
    by_rule: int


def count_variants(difference: Difference, old: Side, new: Side) -> VariantCounts | None:
    """None unless both sides have an op database. A test that was renamed keeps its variants."""
    if old.opdb is None or new.opdb is None:
        return None
    before, after = _Cells(old), _Cells(new)
    was = {change.test: change.was for change in difference.changes if change.was is not None}
    new_tests = {change.test for change in difference.changes if change.kind == "new"}
    added = gone = kept = tests = 0
    for test, _, _ in new.inventory.tests():
        there = test not in new_tests and _is_there(old, was.get(test) or test)
        if not there and test not in new_tests:
            continue  # its file could not be read before: nobody knows
        b, b_factor = after.of(test)
        a, a_factor = before.of(was.get(test) or test) if there else (frozenset[Cell](), 1)
        both = len(a & b) * min(a_factor, b_factor)
        kept += both
        more, less = len(b) * b_factor - both, len(a) * a_factor - both
        added, gone = added + more, gone + less
        tests += bool(more or less)
    for change in difference.changes:
        if change.kind == "gone":
            cells, factor = before.of(change.test)
            gone += len(cells) * factor
            tests += 1
    return VariantCounts(added, gone, kept, tests, len(after.by_rule))


def _is_there(side: Side, test: TestId) -> bool:
    return test.file in side.inventory.files and test in side.inventory.known(test.file)


class _Cells:
    """The cells of one side's tests; those of one ``@ops`` expression are drawn once."""

    def __init__(self, side: Side) -> None:
        assert side.opdb is not None
        self.side, self.opdb, self.index = side, side.opdb, OpIndex(side.opdb)
        self.by_rule: set[TestId] = set()
        self._drawn: dict[DbUse, frozenset[Cell]] = {}

    def of(self, test: TestId) -> tuple[frozenset[Cell], int]:
        """Its cells, and how often its parametrisations repeat each."""
        method = self.side.inventory.known(test.file)[test].method
        if method.ops is not None:
            use = method.ops._replace(line=0)
            if use not in self._drawn:
                self._drawn[use] = frozenset(self._ops(use))
            cells = self._drawn[use]
        else:
            cells = frozenset(self._others(method))
        if not cells or UNKNOWN in (method.dtypes or ()):
            self.by_rule.add(test)
            cells = cells or frozenset({("", "")})
        return cells, method.factor

    def _ops(self, use: DbUse) -> Iterator[Cell]:
        for entry in self.index.entries(use):
            label = f"{entry.name}.{entry.variant}" if entry.variant else entry.name
            dtypes = set(entry.dtypes)
            if use.dtypes is not None and UNKNOWN not in use.dtypes:
                dtypes &= set(use.dtypes)
            if use.once:
                yield label, ""
            else:
                yield from ((label, dtype) for dtype in dtypes)

    def _others(self, method: MethodRecord) -> Iterator[Cell]:
        modules = method.modules
        if modules is not None:
            for name in self.opdb.modules:
                if (modules.include is None or name in modules.include) and name not in modules.exclude:
                    yield name, ""
        elif method.dtypes:
            yield from (("", dtype) for dtype in method.dtypes)
        else:
            yield "", ""
