"""What a test reaches inside its own module: helpers, its class chain, ``self.*`` methods, constants, imports."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Set

from selector.discover.records import MODULE, FileRecord, Symbol

Node = tuple[str, str]
"""a symbol's key and the class whose ``self`` it runs with ('' for none)"""


class Reach:
    """Closures over one file's symbols; each is computed once."""

    def __init__(self, record: FileRecord) -> None:
        self.record = record
        self._methods: dict[str, list[str]] = {}
        for key, symbol in record.symbols.items():
            if symbol.kind == "method":
                cls, _, method = key.rpartition(".")
                self._methods.setdefault(cls, []).append(method)
        self._chains: dict[str, tuple[str, ...]] = {}
        self._edges: dict[Node, tuple[Node, ...]] = {}
        self._back: dict[str, set[str]] | None = None
        self._tests: dict[tuple[str, str, frozenset[str]], frozenset[str]] = {}
        self._frames: dict[str, tuple[set[Node], frozenset[str]]] = {}

    def chain(self, cls: str) -> tuple[str, ...]:
        """The class and its bases as far as they are written in this file, nearest first."""
        if cls not in self._chains:
            seen: list[str] = []
            todo = [cls]
            while todo:
                name = todo.pop(0)
                record = self.record.classes.get(name)
                if record is not None and name not in seen:
                    seen.append(name)
                    todo.extend(record.bases)
            self._chains[cls] = tuple(seen)
        return self._chains[cls]

    def foreign_bases(self, cls: str) -> tuple[str, ...]:
        """Dotted names of the bases that come from elsewhere."""
        bases = [b for c in self.chain(cls) for b in self.record.classes[c].bases]
        return tuple(dict.fromkeys(b for b in bases if b not in self.record.classes))

    def test(self, cls: str, method: str, also: frozenset[str] = frozenset()) -> frozenset[str]:
        """Keys of every symbol that the test reaches here, its own among them.

        ``also``: methods of its class that are called from elsewhere, by the part of it that another file holds.
        """
        at = (cls, method, also)
        if at not in self._tests:
            chain = self.chain(cls)
            start: list[Node] = []
            for name in (method, *sorted(also)):
                above = (f"{c}.{name}" for c in chain if f"{c}.{name}" in self.record.symbols)
                start.extend((key, cls) for key in itertools.islice(above, 1))  # the nearest one hides the others
            frame, keys = self._frame(cls)
            self._tests[at] = keys.union(key for key, _ in self._closure(start, frame))
        return self._tests[at]

    def _frame(self, cls: str) -> tuple[set[Node], frozenset[str]]:
        """What every test of a class reaches: the frames of its chain and the module's loose code."""
        if cls not in self._frames:
            start: list[Node] = [*((c, cls) for c in self.chain(cls)), (MODULE, "")]
            if ".<locals>." in cls:
                start.append((cls.partition(".<locals>.")[0], ""))
            nodes = self._closure(start)
            self._frames[cls] = nodes, frozenset(key for key, _ in nodes)
        return self._frames[cls]

    def symbol(self, key: str) -> frozenset[str]:
        """Keys of every symbol that a function (or the module's loose code) reaches here, its own among them."""
        return frozenset(found for found, _ in self._closure([(key, "")]))

    def methods(self, cls: str, names: frozenset[str]) -> frozenset[str]:
        """What a user of a class reaches who calls these methods of it: they, and the frames of its chain."""
        chain = self.chain(cls)
        start: list[Node] = [(c, cls) for c in chain]
        for name in names:
            above = (f"{c}.{name}" for c in chain if f"{c}.{name}" in self.record.symbols)
            start.extend((key, cls) for key in itertools.islice(above, 1))
        return frozenset(found for found, _ in self._closure(start))

    def names(self, keys: Iterable[str]) -> frozenset[str]:
        """Everything that these symbols mention: plain names, attributes, attributes of self."""
        found: set[str] = set()
        for key in keys:
            symbol = self.record.symbols[key]
            found.update(symbol.refs, symbol.attrs, symbol.selfs)
        return frozenset(found)

    def dependents(self, changed: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
        """The changed symbols and all those of this file that reach one of them.

        A value is empty where the symbol changed as a whole; for a class that changed through some of its methods
        only, it holds their names: who never calls them is not touched.
        """
        back = self._users()
        whole: set[str] = set()
        through: dict[str, set[str]] = {}
        todo = [(key, m) for key, ms in changed.items() if key in self.record.symbols for m in ms or ("",)]
        while todo:
            key, method = todo.pop()
            if method:
                if method in through.setdefault(key, set()):
                    continue
                through[key].add(method)
                for name in back.get(key, ()):
                    user = self.record.symbols[name]
                    if user.kind == "class":
                        todo.append((name, method))  # a subclass inherits it
                    elif self.record.symbols[key].kind == "import" and (method in user.attrs or method in user.selfs):
                        todo.append((name, ""))  # of a class in this file the users point at the method itself
            elif key not in whole:
                whole.add(key)
                todo.extend((user, "") for user in back.get(key, ()))
                if self.record.symbols[key].kind == "method":
                    cls, _, name = key.rpartition(".")
                    if name.startswith("__"):
                        todo.append((cls, ""))  # hooks that the language calls
                    elif not name.startswith("test"):
                        todo.append((cls, name))
        found = {key: frozenset(names) for key, names in through.items() if key not in whole}
        return found | dict.fromkeys(whole, frozenset[str]())

    def _users(self) -> dict[str, set[str]]:
        if self._back is None:
            self._back = {}
            for key, symbol in self.record.symbols.items():
                cls = key.rpartition(".")[0] if symbol.kind == "method" else key if symbol.kind == "class" else ""
                for target, _ in self._targets((key, cls)):
                    self._back.setdefault(target, set()).add(key)
        return self._back

    def _closure(self, start: Iterable[Node], known: Set[Node] = frozenset()) -> set[Node]:
        """What is reached from ``start`` beside ``known``, which is closed itself."""
        seen: set[Node] = set()
        todo = [node for node in start if node[0] in self.record.symbols]
        while todo:
            node = todo.pop()
            if node not in seen and node not in known:
                seen.add(node)
                todo.extend(self._targets(node))
        return seen

    def _targets(self, node: Node) -> tuple[Node, ...]:
        if node not in self._edges:
            key, root = node
            symbol = self.record.symbols[key]
            refs = [ref for ref in symbol.refs if ref in self.record.symbols]
            if key == MODULE:
                # loose code names classes of tests to make them or to add to them: their tests reach their frames
                refs = [ref for ref in refs if ref not in self.record.classes or not self.record.classes[ref].tests]
            found = [target for ref in refs for target in self._named(ref, root)]
            if root:
                found.extend(self._own_methods(symbol, root))
            self._edges[node] = tuple(dict.fromkeys(found))
        return self._edges[node]

    def _named(self, ref: str, root: str) -> list[Node]:
        if ref not in self.record.classes:
            return [(ref, "")]
        if root and ref in self.chain(root):
            return [(ref, root)]
        # a helper class used by name: all of it; a class of tests is only named to be made or added to
        nodes: list[Node] = []
        for cls in self.chain(ref):
            nodes.append((cls, ref))
            if not self.record.classes[ref].tests:
                nodes.extend((f"{cls}.{m}", ref) for m in self._methods.get(cls, ()))
        return nodes

    def _own_methods(self, symbol: Symbol, root: str) -> list[Node]:
        nodes: list[Node] = []
        for name in symbol.selfs:
            for cls in self.chain(root):
                key = f"{cls}.{name}"
                if key in self.record.symbols:
                    nodes.append((key, root))
                    if key != symbol.key:
                        break
        return nodes


def changed_symbols(old: Mapping[str, Symbol], new: Mapping[str, Symbol]) -> frozenset[str]:
    """Keys whose hash differs, or that only one side has."""
    return frozenset(key for key in old.keys() | new.keys() if not _same(old.get(key), new.get(key)))


def _same(old: Symbol | None, new: Symbol | None) -> bool:
    return old is not None and new is not None and old.own == new.own
