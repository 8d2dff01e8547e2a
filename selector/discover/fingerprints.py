"""What a test is made of, part by part: so that two releases can be compared and the difference be named.

The parts do not overlap. ``Prints.of`` gives a hash a part, ``Prints.parts`` the symbols behind each with their hashes,
``differences`` what changed between two of those. Formatting, comments and docstrings are in none of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

from selector.discover.family import Place
from selector.discover.inventory import Inventory, Known
from selector.discover.library import Library
from selector.discover.normal import digest
from selector.discover.records import Symbol
from selector.model import TestId

Part = Literal["body", "decorators", "helpers", "chain", "constants", "imports", "module", "library"]
PARTS: tuple[Part, ...] = get_args(Part)
Parts = Mapping[Part, Mapping[str, str]]
"""part -> symbol (``name``, ``Class.method``; ``path::name`` in another file) -> hash"""


class Fingerprint(NamedTuple):
    """A hash a part, '' where there is nothing of it.

    ``body``: the test's arguments and statements, not its name; ``decorators``: those on its method; ``helpers``:
    functions, methods and helper classes that it reaches; ``chain``: the frames of its class and of those above it
    (bases, class decorators, attributes, ``setUp``, how it is made for devices); ``constants``: module values;
    ``imports``: the names it reaches that come from elsewhere, with where from; ``module``: the module's loose
    statements, which may make tests; ``library``: what it reaches of the shared test library.
    """

    body: str
    decorators: str
    helpers: str
    chain: str
    constants: str
    imports: str
    module: str
    library: str

    @property
    def deep(self) -> str:
        """One hash of everything but the shared library, which has keys of its own."""
        return digest(self[:-1])


class Prints:
    """Fingerprints of one inventory's tests."""

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self.library = Library(inventory)
        self.hashes = self.library.hashes()

    def of(self, test: TestId) -> Fingerprint:
        """Raises KeyError for a test that the inventory does not have."""
        return _print(self.parts(test))

    def own(self, test: TestId) -> Fingerprint:
        """The same without the shared library, which costs half of it: how a test is recognised."""
        return _print(self._own(test))

    def parts(self, test: TestId) -> dict[Part, dict[str, str]]:
        """Raises KeyError for a test that the inventory does not have."""
        found = self._own(test)
        found["library"] = {key: self.hashes[key] for key in self.library.keys(test) if key in self.hashes}
        return found

    def _own(self, test: TestId) -> dict[Part, dict[str, str]]:
        known = self.inventory.known(test.file)[test]
        found: dict[Part, dict[str, str]] = {part: {} for part in PARTS}
        chain = self._chain(known)
        for path, keys in self.inventory.reached(test):
            symbols = self.inventory.files[path].symbols
            away = "" if path == test.file else f"{path}::"
            for key in keys & symbols.keys():
                symbol = symbols[key]
                if (path, key) == known.origin and symbol.kind == "method":
                    found["body"][""] = symbol.body or symbol.own  # by no name: a renamed test keeps its body
                    if symbol.shell:
                        found["decorators"][""] = symbol.shell
                else:
                    part = "chain" if (path, key) in chain else _part(symbol)
                    found[part][away + key] = symbol.own
        return found

    def _chain(self, known: Known) -> frozenset[tuple[str, str]]:
        """The classes above the test: its own, and the one in which its method is written."""
        family = self.inventory.family
        starts = [Place(known.id.file, known.id.cls), Place(known.origin.path, known.origin.key.rpartition(".")[0])]
        there = [at for at in starts if at.key in self.inventory.files[at.path].classes]
        return frozenset(at for start in there for at in family.chain(start))


def _print(parts: Parts) -> Fingerprint:
    return Fingerprint(*(digest(f"{k}={v}" for k, v in sorted(parts[p].items())) if parts[p] else "" for p in PARTS))


def differences(old: Parts, new: Parts) -> dict[Part, tuple[str, ...]]:
    """part -> the symbols of it that differ or that one side alone has; parts that are equal are left out."""
    changed: dict[Part, tuple[str, ...]] = {}
    for part in PARTS:
        before, after = old[part], new[part]
        names = tuple(sorted(k for k in before.keys() | after.keys() if before.get(k) != after.get(k)))
        if names:
            changed[part] = names
    return changed


def _part(symbol: Symbol) -> Part:
    if symbol.kind in ("value", "entry"):
        return "constants"
    if symbol.kind == "import":
        return "imports"
    return "module" if symbol.kind == "module" else "helpers"
