"""Collects upstream's files with pytest and finds the variants a shard asks for. Runs in the collector.

A file has tens of thousands of variants, of which a shard runs few, and a pytest item costs more than making the
variant did: the items of test classes are made when a shard asks for them, from one collection for any number of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest import TestLoader, mock

import pytest
from _pytest.unittest import TestCaseFunction, UnitTestCase

from relay.reuse.plain import govern
from relay.reuse.policy import Reuse
from relay.reuse.registry import VariantRecord
from relay.worker.leaks import Imports
from relay.worker.spec import Shard
from selector.model import TestId

LONGEST = 1000
"""Characters of a variant's name."""
INI = "[pytest]\npython_files = *.py\n"


def arguments(tree: Path, ini: Path, files: Sequence[str]) -> list[str]:
    """pytest's arguments: its own ini and no conftest of upstream's, so that a change cannot steer the collection.

    pytest's plugin that collects what is logged hangs itself into each of torch's loggers, six times a test, a fifth of
    a small one: it is there for files that ask for it."""
    return [
        *([] if any(b"caplog" in _text(tree / name) for name in files) else ["-p", "no:logging"]),
        "-c",
        str(ini),
        f"--rootdir={tree}",
        "--noconftest",
        "-p",
        "no:cacheprovider",
        "--assert=plain",
        "--continue-on-collection-errors",
        "-q",
        "-s",
        "-W",
        "ignore",
        *(str(tree / name) for name in files),
    ]


def _text(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:  # pytest says so of the file
        return b""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A test method that may be a variant of a shard, and how its pytest item is made."""

    cls: type
    method: str
    path: str
    item: Callable[[], Any]


@dataclass(slots=True)
class Found:
    """What a shard finds in a collection: per key the item to run and the record of how; ``emptied``: why a test has
    no variant left."""

    items: dict[str, Any] = field(default_factory=dict)
    records: list[VariantRecord] = field(default_factory=list)
    matched: set[TestId] = field(default_factory=set)
    emptied: dict[TestId, str] = field(default_factory=dict)
    unfit: dict[str, str] = field(default_factory=dict)
    """Files, with the reason, that have variants whose names nobody could show: those do not run."""


class TestCaseClass(UnitTestCase):
    """A ``TestCase`` class whose items are made on demand. ``names``: all its test methods, once it was collected."""

    __test__ = False
    names: tuple[str, ...] = ()

    def collect(self) -> Iterable[Any]:
        listed: list[str] = []
        list_names = TestLoader.getTestCaseNames

        def none(loader: TestLoader, cls: Any) -> list[str]:
            listed.extend(list_names(loader, cls))
            return []

        # pytest sets the class up (its fixtures, its skip marks), and is told of no method
        with mock.patch.object(TestLoader, "getTestCaseNames", none):
            made = list(super().collect())
        self.names = tuple(name for name in listed if getattr(getattr(self.obj, name), "__test__", True))
        return made

    def candidates(self, methods: tuple[str, ...], variants: frozenset[str] | None) -> Iterator[Candidate]:
        """The methods that can be variants of ``methods`` (upstream lets a variant's name begin with its test's, and
        else the function bears it), or of these only those that are named in ``variants``."""
        for name in self.names:
            if variants is not None and name not in variants:
                continue
            if name.startswith(methods) or self._own_name(name).startswith(methods):
                yield Candidate(self.obj, name, str(self.path), partial(self._item, name))

    def _own_name(self, name: str) -> str:
        return str(getattr(getattr(self.obj, name), "__name__", name))

    def _item(self, name: str) -> Any:
        return TestCaseFunction.from_parent(self, name=name)


class Collected:
    """A pytest plugin that keeps what was collected."""

    def __init__(self, reuse: Reuse) -> None:
        self._reuse = reuse
        self._classes: list[TestCaseClass] = []
        self.others: Sequence[Any] = ()
        """Items that pytest made itself: of classes that are no ``TestCase``."""

    @pytest.hookimpl(wrapper=True)
    def pytest_pycollect_makeitem(self, collector: Any, name: str, obj: Any) -> Any:
        made = yield
        if type(made) is UnitTestCase:
            made = TestCaseClass.from_parent(collector, name=name, obj=obj)
            self._classes.append(made)
        return made

    def size(self, files: Iterable[str]) -> int:
        """How many test methods these files have."""
        wanted = set(files)
        return sum(len(c.names) for c in self._classes if self._file(c) in wanted) + sum(
            self._file(item) in wanted for item in self.others
        )

    def candidates(
        self, tests: Iterable[TestId], variants: frozenset[str] | None, begins: Callable[[str], object] = str
    ) -> Iterator[Candidate]:
        """What may be variants of these tests, in the order of their files; ``variants`` are methods' names. ``begins``
        is told of a file before its code may run."""
        methods: dict[str, list[str]] = {}
        for test in tests:
            methods.setdefault(test.file, []).append(test.method)
        for node in self._classes:
            if wanted := methods.get(self._file(node)):
                begins(self._file(node))
                yield from node.candidates(tuple(wanted), variants)
        for item in self.others:
            if getattr(item, "cls", None) is not None and self._file(item) in methods:
                method = getattr(item, "originalname", None) or item.name
                yield Candidate(item.cls, method, str(item.path), partial(_looked_up_again, item))

    def _file(self, node: Any) -> str:
        return self._reuse.file_of(str(node.path))


class SubtestFailures:
    """Plugin: what a test's subtests failed with. They come by this hook only; the main report of a test says nothing
    of them."""

    def __init__(self) -> None:
        self._failed_subtests: list[str] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        if type(report).__name__ == "SubtestReport" and report.failed:
            self._failed_subtests.append(str(report.longrepr))


class FileProgress:
    """A pytest plugin that says which file is being imported, and what became of it.

    ``say(file, state, message, left)``: state is ``start`` or ``end``; the message is the import error, if any;
    ``left`` are the names of what the import changed for every other file.
    """

    def __init__(self, reuse: Reuse, say: Callable[[str, str, str | None, list[str]], None]) -> None:
        self._reuse = reuse
        self._say = say
        self._errors: dict[str, str] = {}
        self._imports: Imports | None = None

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Any:
        if not isinstance(collector, (pytest.Module, pytest.Class)):
            return (yield)  # a class runs code of its file, too, when its tests are listed
        file = self._reuse.file_of(str(collector.path))
        if self._imports is None:  # pytest is at work by now, and what it has changed is nobody's
            self._imports = Imports()
        self._say(file, "start", None, [])
        report = yield
        if report.failed:
            self._errors.setdefault(file, str(report.longrepr))
        self._say(file, "end", self._errors.get(file), self._imports.changed())
        return report

    def again(self, files: Iterable[str]) -> None:
        """Says once more which of these files could not be imported: to the next shard that asks for them."""
        for file in files:
            if file in self._errors:
                self._say(file, "end", self._errors[file], [])


def find(collected: Collected, shard: Shard, reuse: Reuse, begins: Callable[[str], object] = str) -> Found:
    """The variants that the shard asks for and that are not done, in the order of its tests. ``begins`` is told of each
    file before its code may run."""
    order = {test: position for position, test in enumerate(shard.tests)}
    found = Found()
    reached: set[TestId] = set()
    chosen: list[tuple[int, int, VariantRecord, Candidate]] = []
    names = None if shard.variants is None else frozenset(key.rpartition("::")[2] for key in shard.variants)
    for position, candidate in enumerate(collected.candidates(shard.tests, names, begins)):
        record = record_of(candidate, reuse)
        if record.test not in order:
            continue
        found.matched.add(record.test)
        if record.test in shard.ops:
            if record.op is not None and record.op not in shard.ops[record.test]:
                continue
            reached.add(record.test)
        if len(record.variant) > LONGEST or not record.variant.isprintable():
            name = ascii(record.variant[:80])
            found.unfit[record.test.file] = (
                f"a variant's name has {len(record.variant)} characters, of which at most {LONGEST} are taken: {name}"
                if len(record.variant) > LONGEST
                else f"a variant's name cannot be printed: {name}"
            )
            continue
        if record.key in shard.done or (shard.variants is not None and record.key not in shard.variants):
            continue
        chosen.append((order[record.test], position, record, candidate))
    if names is not None:
        found.matched |= _present(collected, set(order) - found.matched, reuse)
    for test in sorted(found.matched & shard.ops.keys() - reached):
        ops = ", ".join(sorted(shard.ops[test]))
        found.emptied[test] = f"on this device none of its variants runs {ops}, all that the change reaches"
    for emptied in reuse.registry.emptied:
        if emptied.test in order:
            found.emptied.setdefault(emptied.test, emptied.reason)
    for _, _, record, candidate in sorted(chosen, key=lambda c: c[:2]):
        if record.key not in found.items:
            found.items[record.key] = candidate.item()
            found.records.append(record)
    return found


def _present(collected: Collected, tests: set[TestId], reuse: Reuse) -> set[TestId]:
    """Which of these tests there are at all, though none of their variants was asked for."""
    present: set[TestId] = set()
    for test in tests:
        if any(record_of(candidate, reuse).test == test for candidate in collected.candidates([test], None)):
            present.add(test)
    return present


def record_of(candidate: Candidate, reuse: Reuse) -> VariantRecord:
    record = reuse.registry.own(candidate.cls, candidate.method)
    return record or govern(reuse, candidate.cls, candidate.method, candidate.path)


def _looked_up_again(item: Any) -> Any:
    item._obj = None  # the configs may have bound another function to the method
    return item
