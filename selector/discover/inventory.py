"""Every test of a tree, and what each file is made of; see docs/discover.md."""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from selector.discover.cache import InventoryCache
from selector.discover.family import Family, Place
from selector.discover.imports import TESTS, importers, is_testlib
from selector.discover.made import Maker, Pattern
from selector.discover.parse import MAX_BYTES, parse
from selector.discover.parser_process import parse_many
from selector.discover.reach import Reach
from selector.discover.records import (
    FORMAT,
    ClassRecord,
    FileRecord,
    Import,
    MethodRecord,
    Symbol,
    from_bytes,
    to_bytes,
    unreadable,
)
from selector.errors import TreeError
from selector.model import TestId, Tree

_PARALLEL_FROM = 2_000_000
"""bytes of source from which starting processes (0.2 s) pays"""


class Known(NamedTuple):
    """A test of the inventory. ``origin`` is where its method is written: for inherited tests and for those that code
    makes another class, or another file, than its id says. ``how``: written, inherited, made."""

    id: TestId
    cls: ClassRecord
    method: MethodRecord
    origin: Place
    how: Literal["written", "inherited", "made"]


@dataclass
class Inventory:
    """The records of one tree's test files and of the shared test library, by path."""

    files: Mapping[str, FileRecord]
    ids: Mapping[str, str]
    """path -> content id"""
    _reaches: dict[str, Reach] = field(default_factory=dict, repr=False)
    _importers: dict[str, list[tuple[str, Import, str]]] = field(default_factory=dict, repr=False)
    _tests: dict[str, dict[TestId, Known]] = field(default_factory=dict, repr=False)
    _derived: dict[Place, list[TestId]] | None = field(default=None, repr=False)
    _here: dict[str, list[tuple[Known, frozenset[str]]]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.family = Family(self.files)
        self.maker = Maker(self.family)

    def reach(self, path: str) -> Reach:
        if path not in self._reaches:
            self._reaches[path] = Reach(self.files[path])
        return self._reaches[path]

    def adopt(self, other: Inventory) -> None:
        """Takes over what another inventory found out about files that are the same here."""
        for path, reach in other._reaches.items():
            if self.files.get(path) is reach.record:
                self._reaches[path] = reach

    def importers(self, path: str) -> list[tuple[str, Import, str]]:
        """Who imports ``path``; see ``imports.importers``."""
        if path not in self._importers:
            self._importers[path] = importers(self.files, path)
        return self._importers[path]

    def tests(self, path: str | None = None) -> Iterator[tuple[TestId, ClassRecord, MethodRecord]]:
        """Every test (of one file), in order of path: those that are written, in order of class and place, then those
        that classes inherit, then those that code makes."""
        for at in sorted(self.files) if path is None else [path]:
            for known in self.known(at).values():
                yield known[:3]

    def known(self, path: str) -> Mapping[TestId, Known]:
        """The tests of one file, by id."""
        found = self._tests.get(path)
        if found is None:
            found = self._tests[path] = {}
            for one in self._collect(path):
                found.setdefault(one.id, one)
        return found

    def _collect(self, path: str) -> Iterator[Known]:
        if not path.startswith(TESTS) or path not in self.files:
            return
        classes = [cls for cls in self.files[path].classes.values() if not cls.nested]
        for cls in classes:
            for test in cls.tests:
                origin = Place(path, f"{cls.name}.{test.name}")
                yield Known(TestId(path, cls.name, test.name), cls, test, origin, "written")
        for cls in classes:
            for method, origin in self.family.inherited(Place(path, cls.name)) if cls.bases else ():
                at = method if origin.path == path else method._replace(line=cls.line)
                yield Known(TestId(path, cls.name, method.name), cls, at, origin, "inherited")
        for cls, method, origin in self.maker.made(path).tests:
            yield Known(TestId(path, cls.name, method.name), cls, method, origin, "made")

    def patterns(self) -> Iterator[tuple[str, Pattern]]:
        """(path, tests that code makes under names that only running it tells)."""
        for path in sorted(self.files):
            if path.startswith(TESTS):
                yield from ((path, one) for one in self.maker.made(path).patterns)

    def find(self, test: TestId) -> tuple[ClassRecord, MethodRecord] | None:
        """The class and the method of a test, None if there is no such test here."""
        known = self.known(test.file).get(test)
        return known[1:3] if known is not None else None

    def derived(self, path: str, key: str) -> list[TestId]:
        """Tests of other classes or files that run the method written at ``key`` (``Class.test_x``) of ``path``."""
        if self._derived is None:
            self._derived = defaultdict(list)
            for at in sorted(self.files):
                for known in self.known(at).values():
                    if known.how != "written":
                        self._derived[known.origin].append(known.id)
        return self._derived.get(Place(path, key), [])

    def reached(self, test: TestId) -> list[tuple[str, frozenset[str]]]:
        """(file, symbols of it) that the test reaches in its own file and in the one where its method is written."""
        known = self.known(test.file).get(test)
        if known is None:
            return []
        origin = known.origin
        if origin.path == test.file and known.how != "made":
            return [(test.file, self.reach(test.file).test(test.cls, test.method))]
        cls, _, method = origin.key.rpartition(".")
        theirs = self.reach(origin.path).test(cls, method) if cls else self.reach(origin.path).symbol(origin.key)
        symbols = self.files[origin.path].symbols
        selfs = frozenset(name for key in theirs if key in symbols for name in symbols[key].selfs)
        mine = self.reach(test.file).test(test.cls, test.method, selfs)
        if origin.path == test.file:
            return [(test.file, mine | theirs)]
        return [(test.file, mine), (origin.path, theirs)]

    def here(self, path: str) -> list[tuple[Known, frozenset[str]]]:
        """Each test of a file with the symbols of that file that it reaches."""
        if path not in self._here:
            reached = [(one, dict(self.reached(one.id))[path]) for one in self.known(path).values()]
            self._here[path] = reached
        return self._here[path]

    def symbols(self, test: TestId) -> Iterator[Symbol]:
        """Every symbol that the test reaches in those files."""
        for path, keys in self.reached(test):
            table = self.files[path].symbols
            yield from (table[key] for key in keys if key in table)

    def mentions(self, test: TestId) -> frozenset[str]:
        """Everything that the files of ``reached`` mention: a quick test before ``symbols``."""
        known = self.known(test.file).get(test)
        if known is None or known.origin.path == test.file:
            return self.files[test.file].mentions
        return self.files[test.file].mentions | self.files[known.origin.path].mentions

    def words(self, test: TestId) -> frozenset[str]:
        """Every name and attribute that the test reaches."""
        found: set[str] = set()
        for symbol in self.symbols(test):
            found.update(symbol.refs, symbol.attrs, symbol.selfs)
        return frozenset(found)

    def device_literals(self, test: TestId) -> frozenset[str]:
        """Devices that strings in reach of the test name (``cuda``, ``cpu``)."""
        return frozenset(word for symbol in self.symbols(test) for word in symbol.literals)

    @property
    def count(self) -> int:
        """How many test methods are written in classes of modules; inherited and made tests do not count again."""
        classes = (c for p, record in self.files.items() if p.startswith(TESTS) for c in record.classes.values())
        return sum(len(cls.tests) for cls in classes if not cls.nested)

    def problems(self) -> list[tuple[str, str]]:
        """(path, reason) of the files that could not be read."""
        return [(path, record.problem) for path, record in sorted(self.files.items()) if record.problem]


@dataclass
class Shelf:
    """Where a process keeps the inventory of the tree that it looked at last: the next commit is nearly the same."""

    latest: Inventory | None = None


def is_inventoried(path: str) -> bool:
    return is_testlib(path) or (path.startswith(TESTS) and path.endswith(".py"))


def has_tests(tree: Tree) -> bool:
    """Whether there is a Python file under ``test/``."""
    return any(path.startswith(TESTS) and is_inventoried(path) for path in tree.paths())


def take(
    tree: Tree, cache: InventoryCache | None = None, known: Inventory | None = None, processes: int = 2
) -> Inventory:
    """The inventory of a tree. Files that ``known`` (another tree's) or ``cache`` has by content are not parsed.

    Raises TreeError when the tree has no file under ``test/``.
    """
    ids = {path: content for path, content in tree.paths().items() if is_inventoried(path)}
    if not has_tests(tree):
        raise TreeError(
            "the tree has no Python file under test/",
            "give the root of a PyTorch checkout; a sparse checkout needs test/ and torch/testing/",
        )
    by_content: dict[str, FileRecord] = {}
    if known is not None:
        by_content = {known.ids[path]: record for path, record in known.files.items()}
    with without_collector():
        missing: dict[str, bytes] = {}
        for path in sorted(ids):
            content = ids[path]
            if content in by_content or content in missing:
                continue
            record = _cached(cache, content)
            if record is not None:
                by_content[content] = record
                continue
            try:
                source = tree.read(path)
            except (KeyError, OSError) as exc:
                by_content[content] = unreadable(f"listed but not readable: {exc}")
                continue
            if len(source) > MAX_BYTES:
                by_content[content] = parse(source)
            else:
                missing[content] = source
        by_content.update(_parse_missing(missing, cache, processes))
    inventory = Inventory({path: by_content[ids[path]] for path in sorted(ids)}, ids)
    if known is not None:
        inventory.adopt(known)
    return inventory


def _parse_missing(missing: dict[str, bytes], cache: InventoryCache | None, processes: int) -> dict[str, FileRecord]:
    found: dict[str, FileRecord] = {}
    if processes > 1 and sum(map(len, missing.values())) >= _PARALLEL_FROM:
        contents = list(missing)

        def keep(index: int, data: bytes) -> None:
            # at once, not at the end: whoever starts again after an interruption goes on from here
            _put(cache, contents[index], lambda: data)

        for content, data in zip(contents, parse_many(list(missing.values()), processes, keep), strict=True):
            found[content] = from_bytes(data)
        return found
    for content, source in missing.items():
        record = found[content] = parse(source)
        _put(cache, content, lambda record=record: to_bytes(record))  # type: ignore[misc]
    return found


def record_of(source: bytes, content: str, cache: InventoryCache | None) -> FileRecord:
    """The record of one file outside of the inventoried folders (an operator's reference, say)."""
    record = _cached(cache, content)
    if record is None:
        record = parse(source)
        _put(cache, content, lambda: to_bytes(record))
    return record


def _cached(cache: InventoryCache | None, content: str) -> FileRecord | None:
    data = cache.get(f"{FORMAT}-{content}") if cache is not None else None
    if data is None:
        return None
    try:
        return from_bytes(data)
    except ValueError:
        return None  # damaged: parsed again and overwritten


def _put(cache: InventoryCache | None, content: str, data: Callable[[], bytes]) -> None:
    if cache is not None:
        cache.put(f"{FORMAT}-{content}", data())


@contextmanager
def without_collector() -> Iterator[None]:
    """A million small tuples in one go: the garbage collector would walk them again and again and find nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
