"""How a changed symbol reaches tests through imports, in ``test/`` and ``torch/testing/_internal``."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from selector.discover.inventory import TESTS, Inventory
from selector.discover.records import MODULE, Import
from selector.model import TestId

Changed = Mapping[str, frozenset[str]]
"""symbol -> the methods it changed through (empty: all of it); see Reach.dependents"""


@dataclass(frozen=True, slots=True)
class Reached:
    """A test that reaches a changed symbol; ``through`` is the symbol of the test's own file that does."""

    test: TestId
    line: int
    through: str


class Spreader:
    """Follows changes through the files of one inventory; who imports what is worked out once for each file."""

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self._importers: dict[str, list[tuple[str, Import, str]]] = {}

    def spread(self, path: str, changed: Changed) -> Iterator[Reached]:
        """Every test that reaches one of the changed symbols of ``path``, in the file itself and in all others.

        Symbols that only the base had may be among ``changed``: who still imports them is reached too.
        """
        seen: dict[str, dict[str, frozenset[str]]] = {}
        todo: list[tuple[str, Changed]] = [(path, changed)]
        while todo:
            at, start = todo.pop(0)
            grown = self._grow(at, start)
            known = seen.setdefault(at, {})
            fresh = {key: methods for key, methods in grown.items() if not _covered(known.get(key), methods)}
            if not fresh:
                continue
            known.update({key: _join(known.get(key), methods) for key, methods in fresh.items()})
            yield from self._tests(at, fresh)
            for importer, bound, name in self.importers(at):
                arrived = self._arrive(importer, bound, name, fresh)
                if arrived:
                    todo.append((importer, arrived))

    def _grow(self, path: str, start: Changed) -> dict[str, frozenset[str]]:
        record = self.inventory.files.get(path)
        gone = {key: methods for key, methods in start.items() if record is None or key not in record.symbols}
        if record is None or record.problem:
            return gone
        return gone | self.inventory.reach(path).dependents(start)

    def _tests(self, path: str, changed: Changed) -> Iterator[Reached]:
        if not path.startswith(TESTS):
            return
        whole = {key for key, methods in changed.items() if not methods}
        part = {key: methods for key, methods in changed.items() if methods}
        reach = self.inventory.reach(path)
        for test, cls, found in self.inventory.tests(path):
            keys = reach.test(cls.name, found.name)
            hit = sorted(keys & whole, key=lambda key: (key != f"{cls.name}.{found.name}", key))
            if not hit and part:
                mentioned = reach.names(keys)
                hit = sorted(key for key, methods in part.items() if key in keys and methods & mentioned)
            if hit or "*" in whole:
                yield Reached(test, found.line, hit[0] if hit else "*")

    def _arrive(self, importer: str, bound: Import, name: str, changed: Changed) -> Changed:
        """What changes in the importing file: local name -> methods."""
        record = self.inventory.files[importer]
        if name == "*":
            return {"*": frozenset()} if any("." not in key and key != MODULE for key in changed) else {}
        if name:
            return {bound.local: changed[name]} if name in changed else {}
        # the module itself is bound: its users are those that say module.symbol
        names = {key for key in changed if "." not in key and "[" not in key}
        users: dict[str, frozenset[str]] = {}
        for symbol in record.symbols.values():
            if bound.local in symbol.refs and names & set(symbol.attrs):
                users[symbol.key] = frozenset()
        return users

    def importers(self, path: str) -> list[tuple[str, Import, str]]:
        """(importing file, its import, the name it takes from ``path``; '' for the module) of every importer."""
        if path not in self._importers:
            stem = posixpath.basename(path).removesuffix(".py")
            if stem == "__init__":
                stem = posixpath.basename(posixpath.dirname(path))
            found = []
            for at in sorted(self.inventory.files):
                record = self.inventory.files[at]
                if stem in record.mentions and at != path:
                    for one in record.imports:
                        name = taken(at, one, path)
                        if name is not None:
                            found.append((at, one, name))
            self._importers[path] = found
        return self._importers[path]


def taken(importer: str, one: Import, path: str) -> str | None:
    """The name that an import takes from the file ``path``: '' for the module itself, None if it takes nothing.

    Files under ``test/`` are imported by their place under the repository's root, under ``test/``, or beside the
    importer (upstream runs files as scripts).
    """
    module = path.removesuffix(".py").removesuffix("/__init__")
    folder = posixpath.dirname(importer)
    if one.level:
        base = folder
        for _ in range(one.level - 1):
            base = posixpath.dirname(base)
        roots = [base]
    else:
        roots = ["", "test", folder] if path.startswith(TESTS) else [""]
    dotted = one.module.replace(".", "/")
    for root in roots:
        target = posixpath.join(root, dotted) if dotted else root
        if target == module:
            return one.name
        if one.name and posixpath.join(target, one.name) == module:
            return ""
    return None


def _covered(known: frozenset[str] | None, methods: frozenset[str]) -> bool:
    return known is not None and (not known or (bool(methods) and methods <= known))


def _join(known: frozenset[str] | None, methods: frozenset[str]) -> frozenset[str]:
    if known is None:
        return methods
    return known | methods if known and methods else frozenset()
