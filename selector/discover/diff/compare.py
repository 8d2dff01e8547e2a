"""What became of every test between two trees, and why: each lands in one kind.

Tests are matched by id, then by what they are made of (``matching``); what changed is told part by part
(``fingerprints``). The shared library is judged by how many reach it: a helper of a few tests changes them, one that
every twentieth test reaches is told once, for itself, or every release would change everything.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from selector.discover.diff.entries import EntryChange, compare_entries
from selector.discover.diff.matching import Face, Move, moves, pairs
from selector.discover.fingerprints import Part, Parts, Prints, differences
from selector.discover.inventory import Inventory
from selector.discover.opindex import OpIndex
from selector.discover.records import ClassRecord, DbUse, MethodRecord, Symbol
from selector.model import OpDatabase, TestId, Tree

Kind = Literal["unchanged", "cosmetic", "body", "decorator", "helper", "opinfo", "new", "gone", "renamed"]
KINDS: tuple[Kind, ...] = get_args(Kind)
BROAD = 0.05
"""share of all tests that reach a helper of the shared library from which a change of it is told once for itself"""
_HELPER_DETAILS: dict[Part, str] = {
    "helpers": "helper",
    "constants": "constant",
    "imports": "import",
    "chain": "class chain",
    "module": "module",
    "library": "shared library",
}


@dataclass(frozen=True, slots=True)
class TestChange:
    """One test. ``test`` is its id in the new tree (in the old one when it is gone); ``was`` its old id where that is
    another one, ``move`` how it got there. ``kind`` is what happened; of a renamed test ``content`` says what else
    (otherwise it is the same as ``kind``). ``details`` name it more closely; ``parts`` holds the symbols that differ;
    ``ops`` the ops it draws that changed."""

    test: TestId
    kind: Kind
    content: Kind
    was: TestId | None = None
    move: Move | None = None
    details: tuple[str, ...] = ()
    parts: Mapping[Part, tuple[str, ...]] = field(default_factory=dict)
    ops: tuple[str, ...] = ()

    @property
    def to_evaluate(self) -> bool:
        """Whether what is known about it from the old release may not hold any more."""
        return self.content in ("body", "decorator", "helper", "opinfo", "new")


@dataclass(frozen=True, slots=True)
class Difference:
    """``changes``: every test that is not unchanged, in order of id; ``unchanged``: how many are; ``broad``: helpers of
    the shared library that differ and that many tests reach (key -> tests); ``problems``: (side, path, reason) of
    files that could not be read, whose tests are unknown there."""

    total_old: int
    total_new: int
    unchanged: int
    changes: tuple[TestChange, ...]
    entries: Mapping[str, EntryChange]
    broad: Mapping[str, int]
    problems: tuple[tuple[str, str, str], ...] = ()

    def counts(self) -> dict[Kind, int]:
        """Tests by kind; every test of the new tree and every one that is gone counts once."""
        found = Counter(change.kind for change in self.changes)
        return {kind: self.unchanged if kind == "unchanged" else found[kind] for kind in KINDS}


@dataclass(frozen=True, slots=True)
class Side:
    """One release: its tree, the inventory of that, and the op database of its torch where there is one."""

    tree: Tree
    inventory: Inventory
    opdb: OpDatabase | None = None


def compare(old: Side, new: Side) -> Difference:
    """Both sides, test by test. A file that one side cannot read costs that file's tests: they are neither new nor
    gone, and it is named."""
    return _Comparison(old, new).run()


class _Comparison:
    def __init__(self, old: Side, new: Side) -> None:
        self.old, self.new = old, new
        self.was, self.now = Prints(old.inventory), Prints(new.inventory)
        self.entries = compare_entries(old.inventory, new.inventory, old.opdb, new.opdb)
        self.index = OpIndex(new.opdb)
        self._names = frozenset(name for entry in self.entries.values() if not entry.modules for name in entry.names)
        self._texts: dict[tuple[bool, str], list[bytes]] = {}
        self._unread = {path for side in (old, new) for path, _ in side.inventory.problems()}

    def run(self) -> Difference:
        before = {test for test, _, _ in self.old.inventory.tests() if test.file not in self._unread}
        after = [test for test, _, _ in self.new.inventory.tests() if test.file not in self._unread]
        common = [test for test in after if test in before]
        matched = self._match(before.difference(common), [test for test in after if test not in before])
        how = moves(matched, common)
        found: dict[TestId, _Found] = {}
        affected = self._affected()
        for test in common:
            found[test] = self._differences(test, test) if test.file in affected else _Found(ops=self._drawn(test))
        for test, was in matched.items():
            found[test] = self._differences(was, test)
        broad = self._broad(found)
        changes, unchanged = [], 0
        for test in after:
            if test not in found:
                changes.append(TestChange(test, "new", "new", ops=self._drawn(test)))
                continue
            change = self._change(test, matched.get(test), how.get(test), found[test], broad)
            if change.kind == "unchanged":
                unchanged += 1
            else:
                changes.append(change)
        gone = before.difference(common).difference(matched.values())
        changes += [TestChange(test, "gone", "gone") for test in gone]
        problems = [
            (name, path, reason)
            for name, side in (("old", self.old), ("new", self.new))
            for path, reason in side.inventory.problems()
        ]
        return Difference(
            total_old=len(before),
            total_new=len(after),
            unchanged=unchanged,
            changes=tuple(sorted(changes, key=lambda change: (change.test, change.kind))),
            entries=self.entries,
            broad=dict(broad),
            problems=tuple(problems),
        )

    # -------------------------------------------------------------------------------------------------------- matching

    def _match(self, gone: Iterable[TestId], new: Iterable[TestId]) -> dict[TestId, TestId]:
        return pairs(
            {test: _face(self.was, self.old.inventory, test) for test in sorted(gone)},
            {test: _face(self.now, self.new.inventory, test) for test in new},
        )

    def _affected(self) -> set[str]:
        """Files that differ, and those that import such a file, directly or not."""
        old, new = self.old.inventory, self.new.inventory
        importers = [_importers(side) for side in (old, new)]
        todo = [path for path in old.ids.keys() | new.ids.keys() if old.ids.get(path) != new.ids.get(path)]
        found = set(todo)
        while todo:
            path = todo.pop()
            for side in importers:
                more = side.get(path, set()) - found
                found |= more
                todo += more
        return found

    # --------------------------------------------------------------------------------------------------------- content

    def _differences(self, was: TestId, now: TestId) -> _Found:
        parts = differences(_called(self.was.parts(was), was, now), self.now.parts(now))
        library = frozenset(parts.pop("library", ()))
        return _Found(parts, library, self._drawn(now))

    def _drawn(self, test: TestId) -> tuple[str, ...]:
        """Labels of the entries that changed and that the test draws."""
        method = self.new.inventory.known(test.file)[test].method
        found: list[str] = []
        if method.ops is not None:
            drawn = self.index.drawn(method.ops, self._names)[0]
            found += [e.label for e in self.entries.values() if not e.modules and not drawn.isdisjoint(e.names)]
        if method.modules is not None:
            found += [e.label for e in self.entries.values() if e.modules and _passes(method.modules, e.label)]
        return tuple(sorted(found))

    def _broad(self, found: Mapping[TestId, _Found]) -> dict[str, int]:
        reached = Counter(key for one in found.values() for key in one.library)
        return {key: tests for key, tests in sorted(reached.items()) if tests > BROAD * max(1, len(found))}

    def _change(
        self, test: TestId, was: TestId | None, move: Move | None, found: _Found, broad: Mapping[str, int]
    ) -> TestChange:
        parts: dict[Part, tuple[str, ...]] = dict(found.parts)
        narrow = tuple(sorted(found.library - broad.keys()))
        if narrow:
            parts["library"] = narrow
        content, details = self._kind(was or test, test, parts, found.ops)
        kind: Kind = "renamed" if was is not None else content
        return TestChange(test, kind, content, was, move, details, parts, found.ops)

    def _kind(
        self, was: TestId, now: TestId, parts: Mapping[Part, tuple[str, ...]], ops: tuple[str, ...]
    ) -> tuple[Kind, tuple[str, ...]]:
        kinds: list[Kind] = []
        details: list[str] = []
        if "body" in parts:
            kinds.append("body")
        old, new = self.old.inventory.known(was.file)[was], self.new.inventory.known(now.file)[now]
        limits = old.cls.instantiated != new.cls.instantiated and _limits(old.cls) != _limits(new.cls)
        if "decorators" in parts or limits:
            kinds.append("decorator")
            details += _decorator_details(old.method, new.method, limits)
        for part, detail in _HELPER_DETAILS.items():
            if part in parts and not (part == "chain" and limits):
                kinds.append("helper")
                details.append(detail)
        if ops:
            kinds.append("opinfo")
            details += dict.fromkeys(f"op {aspect}" for name in ops for aspect in self.entries[name].aspects)
        if kinds:
            return kinds[0], tuple(details)
        return ("cosmetic", ()) if self._reads_differently(was, now) else ("unchanged", ())

    def _reads_differently(self, was: TestId, now: TestId) -> bool:
        name = f"def {now.method}".encode()
        return self._text(self.old, was).replace(f"def {was.method}".encode(), name, 1) != self._text(self.new, now)

    def _text(self, side: Side, test: TestId) -> bytes:
        known = side.inventory.known(test.file)[test]
        symbol = _symbol(side.inventory, test)
        path = known.origin.path
        at = (side is self.old, path)
        if at not in self._texts:
            if len(self._texts) > 8:
                self._texts.clear()
            self._texts[at] = side.tree.read(path).splitlines()
        first = min((symbol.line, *(decorator.line for decorator in known.method.decorators)))
        return b"\n".join(self._texts[at][first - 1 : symbol.end])


@dataclass(frozen=True, slots=True)
class _Found:
    parts: Mapping[Part, tuple[str, ...]] = field(default_factory=dict)
    library: frozenset[str] = frozenset()
    ops: tuple[str, ...] = ()


def _importers(inventory: Inventory) -> dict[str, set[str]]:
    """path -> the files that import it; every import is looked at once."""
    found: dict[str, set[str]] = defaultdict(set)
    for path, record in inventory.files.items():
        for one in record.imports:
            for target in inventory.family.targets(path, one):
                found[target].add(path)
    return found


def _called(parts: Parts, was: TestId, now: TestId) -> Parts:
    """The old parts under the names that its class and file have now: moving alone changes nothing."""
    if (was.file, was.cls) == (now.file, now.cls):
        return parts
    return {part: {_renamed(key, was, now): value for key, value in keys.items()} for part, keys in parts.items()}


def _renamed(key: str, was: TestId, now: TestId) -> str:
    if key == was.cls or key.startswith(f"{was.cls}."):
        return now.cls + key[len(was.cls) :]
    return f"{was.file}::{key.removeprefix(f'{now.file}::')}" if key.startswith(f"{now.file}::") else key


def _passes(use: DbUse, name: str) -> bool:
    return (use.include is None or name in use.include) and name not in use.exclude


def _symbol(inventory: Inventory, test: TestId) -> Symbol:
    origin = inventory.known(test.file)[test].origin
    return inventory.files[origin.path].symbols[origin.key]


def _face(prints: Prints, inventory: Inventory, test: TestId) -> Face:
    print_ = prints.own(test)
    symbol = _symbol(inventory, test)
    return Face(print_.body, print_.deep, symbol.end - symbol.line)


def _limits(cls: ClassRecord) -> set[tuple[object, object]]:
    return {(one.only_for, one.except_for) for one in cls.instantiated}


def _decorator_details(old: MethodRecord, new: MethodRecord, limits: bool) -> list[str]:
    details = []
    if old.dtypes != new.dtypes or (old.ops and new.ops and old.ops.dtypes != new.ops.dtypes):
        details.append("dtypes")
    if _list(old) != _list(new):
        details.append("ops")
    names = _other(old) ^ _other(new)
    if limits or any(name.startswith(("only", "except")) for name in names):
        details.append("device limits")
    if any("skip" in name.lower() or "expectedfail" in name.lower() for name in names):
        details.append("skips")
    if old.factor != new.factor:
        details.append("parametrisation")
    return details or ["decorators"]


def _list(method: MethodRecord) -> object:
    return [use._replace(line=0, dtypes=None) if use is not None else None for use in (method.ops, method.modules)]


def _other(method: MethodRecord) -> set[str]:
    return {decorator.name for decorator in method.decorators}
