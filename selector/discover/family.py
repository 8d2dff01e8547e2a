"""Names across files: which class or function a dotted name means, and what a class inherits."""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from selector.discover.imports import taken
from selector.discover.records import ClassRecord, FileRecord, Import, MethodRecord

_DEPTH = 6
"""re-exports that a name is followed through"""


class Place(NamedTuple):
    """A symbol of a file."""

    path: str
    key: str


class Inherited(NamedTuple):
    """A test method that a class has from one above it; ``origin`` is where it is written."""

    method: MethodRecord
    origin: Place


class Family:
    """Looks names up through the imports of one inventory's files. Everything found is kept."""

    def __init__(self, files: Mapping[str, FileRecord]) -> None:
        self.files = files
        self._by_stem: dict[str, list[str]] = defaultdict(list)
        for path in files:
            self._by_stem[_stem(path)].append(path)
        self._bound: dict[str, dict[str, list[Import]]] = {}
        self._chains: dict[Place, tuple[Place, ...]] = {}

    def cls(self, path: str, dotted: str) -> Place | None:
        """The class that ``dotted`` means in ``path``; None where it is not in the inventory."""
        return self._find(path, dotted, _DEPTH, programs=False)

    def function(self, path: str, dotted: str) -> Place | None:
        """The same of a function that can make tests."""
        return self._find(path, dotted, _DEPTH, programs=True)

    def record(self, place: Place) -> ClassRecord:
        return self.files[place.path].classes[place.key]

    def chain(self, place: Place) -> tuple[Place, ...]:
        """The class and those above it, nearest first, in this file and in others."""
        known = self._chains.get(place)
        if known is None:
            seen: list[Place] = []
            todo = [place]
            while todo:
                at = todo.pop(0)
                if at not in seen:
                    seen.append(at)
                    above = (self.cls(at.path, base) for base in self.record(at).bases)
                    todo.extend(base for base in above if base is not None)
            known = self._chains[place] = tuple(seen)
        return known

    def inherited(self, place: Place) -> list[Inherited]:
        """Test methods that the class has without writing them, in the order of their classes."""
        record = self.record(place)
        seen = {test.name for test in record.tests} | set(record.hides)
        found = []
        for above in self.chain(place)[1:]:
            their = self.record(above)
            for test in their.tests:
                if test.name not in seen:
                    found.append(Inherited(test, Place(above.path, f"{above.key}.{test.name}")))
            seen.update(test.name for test in their.tests)
            seen.update(their.hides)
        return found

    # ---------------------------------------------------------------------------------------------------------- names

    def _find(self, path: str, dotted: str, depth: int, *, programs: bool) -> Place | None:
        record = self.files.get(path)
        if record is None or depth == 0:
            return None
        if dotted in (record.programs if programs else record.classes):
            return Place(path, dotted)
        head, _, rest = dotted.partition(".")
        bound = self._imports(path)
        for one in bound.get(head, ()):
            found = self._through(path, one, head, rest, depth, programs=programs)
            if found is not None:
                return found
        for one in bound.get("*", ()):
            for target in self.targets(path, one):
                found = self._find(target, dotted, depth - 1, programs=programs)
                if found is not None:
                    return found
        return None

    def _through(self, path: str, one: Import, head: str, rest: str, depth: int, *, programs: bool) -> Place | None:
        if not one.name and one.local != one.module and "." in one.module and one.module.startswith(head + "."):
            # `import a.b.c` binds a: the module's own name is part of the dotted one
            inner = one.module[len(head) + 1 :]
            if not rest.startswith(inner + "."):
                return None
            rest = rest[len(inner) + 1 :]
        for target in self.targets(path, one):
            wanted = taken(path, one, target)
            name = rest if wanted == "" else ".".join(filter(None, [wanted, rest]))
            if name:
                found = self._find(target, name, depth - 1, programs=programs)
                if found is not None:
                    return found
        return None

    def _imports(self, path: str) -> dict[str, list[Import]]:
        if path not in self._bound:
            bound: dict[str, list[Import]] = defaultdict(list)
            for one in self.files[path].imports:
                bound[one.local].append(one)
            self._bound[path] = bound
        return self._bound[path]

    def targets(self, path: str, one: Import) -> list[str]:
        """The files that an import in ``path`` may take something from."""
        stems = dict.fromkeys([one.name, one.module.rpartition(".")[2]])
        candidates = [at for stem in stems if stem for at in self._by_stem.get(stem, ())]
        found = [at for at in candidates if at != path and taken(path, one, at) is not None]
        folder = posixpath.dirname(path)
        # upstream runs files as scripts: what lies beside the importer is found first
        return sorted(found, key=lambda at: posixpath.dirname(at) != folder)


def _stem(path: str) -> str:
    stem = posixpath.basename(path).removesuffix(".py")
    return posixpath.basename(posixpath.dirname(path)) if stem == "__init__" else stem
