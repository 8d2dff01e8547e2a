"""Tests that were seen to run what changed: functions of torch's Python, operators of its kernels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from selector.discover import native
from selector.discover.changes import PythonChange, is_import
from selector.discover.dispatch import Registrations, registered_in
from selector.discover.filekinds import FileKind, is_native
from selector.discover.findings import Findings
from selector.discover.fingerprints import Prints
from selector.discover.opindex import OpIndex
from selector.discover.traced import Trace, Unit
from selector.model import Evidence, FileChange, TestId

SHARE = 0.1
"""Part of the table's seconds that one changed file may add: of more, the cheapest units, so that the most run."""
_SUFFIXES = ("_out", "_cpu", "_cuda", "_kernel", "_impl", "_stub", "_")


def traced(
    python: Sequence[PythonChange],
    files: Iterable[tuple[FileChange, FileKind]],
    trace: Trace,
    findings: Findings,
    index: OpIndex,
    registrations: Registrations,
) -> None:
    """Adds the units that ran a changed function or operator. A changed function that was seen to run is mapped: what
    other rules could not say about it widens nothing, where the table is whole. What a test ran when it was another
    one says nothing."""
    current = _Current(trace, findings)
    for change in python:
        if change.kind not in (FileKind.TEST, FileKind.TEST_DATA):
            _python(change, trace, findings, current)
    for file, kind in files:
        if is_native(file.path) and kind in (FileKind.KERNEL, FileKind.NATIVE_CODE):
            _native(file, trace, findings, index, registrations, current)


class _Current:
    """Which units are of tests that are as they were when they were followed."""

    def __init__(self, trace: Trace, findings: Findings) -> None:
        self._trace, self._inventory = trace, findings.inventory
        self._prints: Prints | None = None
        self._known: dict[TestId, bool] = {}

    def __call__(self, units: Iterable[int]) -> set[int]:
        return {n for n in units if self._is(self._trace.units[n].test)}

    def _is(self, test: TestId) -> bool:
        if test not in self._known:
            self._known[test] = self._look(test)
        return self._known[test]

    def _look(self, test: TestId) -> bool:
        if self._inventory.find(test) is None:
            return False
        followed = self._trace.tests.get(test)
        if followed is None or not followed.print:
            return True
        self._prints = self._prints or Prints(self._inventory)
        try:
            return self._prints.own(test).deep == followed.print
        except KeyError:
            return False


def _python(change: PythonChange, trace: Trace, findings: Findings, current: _Current) -> None:
    by_unit: dict[int, str] = {}
    seen: set[str] = set()
    changed = [key for key in sorted(change.changed) if not is_import(change, key)]
    for key in changed:
        running = current(trace.running(change.path, key) or ())
        if running:
            seen.add(key)
            for unit in running:
                by_unit.setdefault(unit, key)
    _add(change.path, by_unit, trace, findings, lambda key: (change.place(key), key))
    if not seen or not trace.whole:
        return
    # a class is in a change where one of its methods is; its own lines then hold nothing more
    known = seen | {key for key in changed if any(one.startswith(key + ".") for one in seen)}
    whole = all(key in known or key == "__all__" for key in changed)
    findings.unmapped = [
        fact
        for fact in findings.unmapped
        if fact.path != change.path or not (fact.symbol in known or (fact.symbol is None and whole))
    ]


def _native(
    file: FileChange,
    trace: Trace,
    findings: Findings,
    index: OpIndex,
    registrations: Registrations,
    current: _Current,
) -> None:
    functions, _ = native.kernel_words(file.old, file.new)
    here = registered_in(file.new) | registered_in(file.old)
    by_unit: dict[int, str] = {}
    for word in sorted(functions):
        target = index.word(word) if index.database is not None else None
        names = {word, *registrations.ops(word), *here.get(word, ())} | (target.names if target else frozenset())
        for name in sorted({plain for one in names for plain in _plain(one)}):
            for unit in current(trace.ops.get(name, ())):
                by_unit.setdefault(unit, name)
    _add(file.path, by_unit, trace, findings, lambda name: (None, name))


def _plain(name: str) -> list[str]:
    """The name, and what is left of it without what names of kernels end with (``mm_out_cpu``: ``mm_out``, ``mm``)."""
    found = [name]
    while ending := next((end for end in _SUFFIXES if found[-1].endswith(end) and found[-1] != end), None):
        found.append(found[-1].removesuffix(ending))
    return found


def _add(
    path: str, by_unit: dict[int, str], trace: Trace, findings: Findings, place: Callable[[str], tuple[int | None, str]]
) -> None:
    """Adds the units, of which each is there for a name, as far as their seconds allow."""
    chosen = _cheapest(list(by_unit), trace)
    found: dict[TestId, list[int]] = defaultdict(list)
    for n in chosen:
        found[trace.units[n].test].append(n)
    some = f", one of {len(chosen)} of {len(by_unit)} that do" if len(chosen) < len(by_unit) else ""
    crowd = min(1.0, (300 / max(len(by_unit), 1)) ** 0.5)
    for test, units in found.items():
        ops = frozenset(op for n in units if (op := trace.units[n].op) is not None)
        line, symbol = place(by_unit[units[0]])
        followed = trace.tests.get(test)
        when = f" of {followed.day} on torch {trace.torch}" if followed is not None and followed.day else ""
        fact = Evidence("trace", f"ran {symbol} in a trusted run{when}{some}", path, line, symbol)
        limited = ops if all(trace.units[n].op is not None for n in units) else None
        findings.add(test, "traced", fact, crowd, limited)


def _cheapest(units: Sequence[int], trace: Trace) -> list[int]:
    """As many as fit into SHARE of the table's seconds; at least one."""
    left = SHARE * trace.seconds

    def cost(n: int) -> tuple[float, TestId, str]:
        unit: Unit = trace.units[n]
        return unit.seconds, unit.test, unit.op or ""

    chosen: list[int] = []
    for n in sorted(units, key=cost):
        left -= trace.units[n].seconds
        if left < 0 and chosen:
            break
        chosen.append(n)
    return chosen
