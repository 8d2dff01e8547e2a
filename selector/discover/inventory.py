"""Every test of a tree, and what each file is made of; see docs/discover.md."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from selector.discover.cache import InventoryCache
from selector.discover.imports import TESTS, importers, is_testlib
from selector.discover.parse import MAX_BYTES, parse
from selector.discover.parser_process import parse_many
from selector.discover.reach import Reach
from selector.discover.records import (
    FORMAT,
    ClassRecord,
    FileRecord,
    Import,
    MethodRecord,
    from_bytes,
    to_bytes,
    unreadable,
)
from selector.errors import TreeError
from selector.model import TestId, Tree

_PARALLEL_FROM = 2_000_000
"""bytes of source from which starting processes (0.2 s) pays"""


@dataclass
class Inventory:
    """The records of one tree's test files and of the shared test library, by path."""

    files: Mapping[str, FileRecord]
    ids: Mapping[str, str]
    """path -> content id"""
    _reaches: dict[str, Reach] = field(default_factory=dict, repr=False)
    _importers: dict[str, list[tuple[str, Import, str]]] = field(default_factory=dict, repr=False)

    def reach(self, path: str) -> Reach:
        if path not in self._reaches:
            self._reaches[path] = Reach(self.files[path])
        return self._reaches[path]

    def importers(self, path: str) -> list[tuple[str, Import, str]]:
        """Who imports ``path``; see ``imports.importers``."""
        if path not in self._importers:
            self._importers[path] = importers(self.files, path)
        return self._importers[path]

    def tests(self, path: str | None = None) -> Iterator[tuple[TestId, ClassRecord, MethodRecord]]:
        """Every test (of one file), in order of path, class and place."""
        for at in sorted(self.files) if path is None else [path] if path in self.files else []:
            if at.startswith(TESTS):
                for cls in self.files[at].classes.values():
                    for test in cls.tests:
                        yield TestId(at, cls.name, test.name), cls, test

    def find(self, test: TestId) -> tuple[ClassRecord, MethodRecord] | None:
        """The class and the method of a test, None if there is no such test here."""
        record = self.files.get(test.file)
        cls = record.classes.get(test.cls) if record is not None else None
        if cls is None:
            return None
        for found in cls.tests:
            if found.name == test.method:
                return cls, found
        return None

    @property
    def count(self) -> int:
        """How many test methods there are."""
        return sum(record.tests for path, record in self.files.items() if path.startswith(TESTS))

    def problems(self) -> list[tuple[str, str]]:
        """(path, reason) of the files that could not be read."""
        return [(path, record.problem) for path, record in sorted(self.files.items()) if record.problem]


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
    with _no_collector():
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
    return Inventory({path: by_content[ids[path]] for path in sorted(ids)}, ids)


def _parse_missing(missing: dict[str, bytes], cache: InventoryCache | None, processes: int) -> dict[str, FileRecord]:
    found: dict[str, FileRecord] = {}
    if processes > 1 and sum(map(len, missing.values())) >= _PARALLEL_FROM:
        for content, data in zip(missing, parse_many(list(missing.values()), processes), strict=True):
            found[content] = from_bytes(data)
            _put(cache, content, lambda data=data: data)  # type: ignore[misc]
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
def _no_collector() -> Iterator[None]:
    """A million small tuples in one go: the garbage collector would walk them again and again and find nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
