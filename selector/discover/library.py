"""The shared test library (``torch/testing/``, ``test_case.py``) as a dependency with keys of its own.

A key is ``path::symbol``, one a helper and one an entry of an op database. A test's keys are those that it reaches
through its imports, further imports of the library followed; their hashes are kept out of the test's own fingerprint.
"""

from __future__ import annotations

from selector.discover.family import Place
from selector.discover.imports import is_testlib, taken
from selector.discover.inventory import Inventory
from selector.discover.records import Import
from selector.model import TestId


class Library:
    """Keys of one inventory's library, and which tests reach which."""

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self._closed: dict[tuple[str, str, frozenset[str]], frozenset[str]] = {}
        self._bound: dict[tuple[str, str], list[tuple[str, str]]] = {}

    def hashes(self) -> dict[str, str]:
        """key -> hash of every helper and entry. Skips and decorators of an entry do not count."""
        return {
            f"{path}::{key}": symbol.own
            for path, record in sorted(self.inventory.files.items())
            if is_testlib(path)
            for key, symbol in record.symbols.items()
            if symbol.kind != "import"
        }

    def keys(self, test: TestId) -> frozenset[str]:
        """The keys that a test reaches. Entries of op databases are not among them: which ones ``@ops`` draws is said
        by the test's record (``MethodRecord.ops``)."""
        found: set[str] = set()
        words = self.inventory.words(test)
        for path, keys in self.inventory.reached(test):
            symbols = self.inventory.files[path].symbols
            for key in keys:
                if is_testlib(path):
                    found.add(f"{path}::{key}")
                elif key in symbols and symbols[key].kind == "import":
                    found |= self._imported(path, key, words)
        return frozenset(found)

    def _imported(self, path: str, local: str, words: frozenset[str]) -> frozenset[str]:
        found: set[str] = set()
        for target, name in self._targets(path, local):
            if name:
                found |= self._closure(target, name, words)
                continue
            # a module: what is asked of it is among the words
            for symbol in words & self.inventory.files[target].symbols.keys():
                found |= self._closure(target, symbol, words)
        return frozenset(found)

    def _targets(self, path: str, local: str) -> list[tuple[str, str]]:
        """(file of the library, name of it; '' for the module) that a local name is bound to."""
        at = (path, local)
        if at not in self._bound:
            found = []
            for one in self.inventory.files[path].imports:
                if one.local == local:
                    found.extend(self._taken(path, one))
            self._bound[at] = found
        return self._bound[at]

    def _taken(self, path: str, one: Import) -> list[tuple[str, str]]:
        targets = [at for at in self.inventory.family.targets(path, one) if is_testlib(at)]
        names = [(at, taken(path, one, at)) for at in targets]
        return [(at, name) for at, name in names if name is not None]

    def _closure(self, path: str, name: str, words: frozenset[str]) -> frozenset[str]:
        record = self.inventory.files[path]
        place = self.inventory.family.cls(path, name)
        if place is not None and place.path != path:
            return self._closure(place.path, place.key, words)
        if name not in record.symbols:
            return frozenset()
        used = self._methods(place, words) if place is not None else frozenset[str]()
        at = (path, name, used)
        if at not in self._closed:
            self._closed[at] = frozenset()  # what leads back here adds nothing
            reach = self.inventory.reach(path)
            keys = reach.methods(name, used) if place is not None else reach.symbol(name)
            found = {f"{path}::{key}" for key in keys if record.symbols[key].kind != "import"}
            for key in keys:
                if record.symbols[key].kind == "import":
                    found |= self._imported(path, key, used)
            self._closed[at] = frozenset(found)
        return self._closed[at]

    def _methods(self, place: Place, words: frozenset[str]) -> frozenset[str]:
        """Methods of a class, and of those above it in the library, that are called by these words."""
        found: set[str] = set()
        for at in self.inventory.family.chain(place):
            prefix = f"{at.key}."
            symbols = self.inventory.files[at.path].symbols
            found.update(word for word in words if prefix + word in symbols)
        return frozenset(found)
