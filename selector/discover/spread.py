"""How a changed symbol reaches tests through imports, in ``test/`` and the shared test library."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from selector.discover.imports import TESTS
from selector.discover.inventory import Inventory
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
    """Follows changes through the files of one inventory."""

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory

    def spread(self, path: str, changed: Changed) -> Iterator[Reached]:
        """Every test that reaches one of the changed symbols of ``path``, in the file itself and in all others.

        Symbols that only the base had may be among ``changed``: who still imports them is reached too.
        """
        seen: dict[str, dict[str, frozenset[str]]] = {}
        pending: dict[str, dict[str, frozenset[str]]] = {path: dict(changed)}
        reported: set[TestId] = set()
        while pending:
            at = next(iter(pending))
            start = pending.pop(at)
            known = seen.setdefault(at, {})
            grown = self._grow(at, start)
            fresh = {key: methods for key, methods in grown.items() if not _covered(known.get(key), methods)}
            if not fresh:
                continue
            known.update({key: _join(known.get(key), methods) for key, methods in fresh.items()})
            for hit in self._tests(at, fresh, start):
                if hit.test not in reported:
                    reported.add(hit.test)
                    yield hit
            for importer, bound, name in self.inventory.importers(at):
                for key, methods in self._arrive(importer, bound, name, fresh).items():
                    # everything that arrives in a file is followed from there at once
                    waiting = pending.setdefault(importer, {})
                    waiting[key] = _join(waiting.get(key), methods)

    def _grow(self, path: str, start: Changed) -> dict[str, frozenset[str]]:
        record = self.inventory.files.get(path)
        gone = {key: methods for key, methods in start.items() if record is None or key not in record.symbols}
        if record is None or record.problem:
            return gone
        return gone | self.inventory.reach(path).dependents(start)

    def _tests(self, path: str, changed: Changed, start: Changed) -> Iterator[Reached]:
        if not path.startswith(TESTS) or path not in self.inventory.files:
            return  # a file that is gone has importers, but no tests
        whole = {key for key, methods in changed.items() if not methods}
        part = {key: methods for key, methods in changed.items() if methods}
        reach = self.inventory.reach(path)
        for known, keys in self.inventory.here(path):
            test = known.id
            hit = sorted(keys & whole, key=lambda key: (key not in start, key))
            if not hit and part:
                mentioned = reach.names(keys)
                hit = sorted(key for key, methods in part.items() if key in keys and methods & mentioned)
            if hit or "*" in whole:
                through = hit[0] if hit else "*"
                yield Reached(test, known.method.line, through)
                if known.how == "written":
                    # whoever runs this method elsewhere reaches what it reaches
                    for other in self.inventory.derived(path, known.origin.key):
                        if other.file != path:
                            yield Reached(other, known.method.line, through)

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


def _covered(known: frozenset[str] | None, methods: frozenset[str]) -> bool:
    return known is not None and (not known or (bool(methods) and methods <= known))


def _join(known: frozenset[str] | None, methods: frozenset[str]) -> frozenset[str]:
    if known is None:
        return methods
    return known | methods if known and methods else frozenset()
