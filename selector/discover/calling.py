"""Which tests call a word: themselves, or through a helper that they reach.

A helper that very many tests share (the one that compares two results, say) calls the same for each of them. What
breaks it breaks it for all, so a few, of as many classes as there are, stand for the rest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from selector.discover.inventory import Inventory
from selector.model import TestId

ALIKE = 60
"""tests that reach a word through one and the same symbol, of which more say nothing new"""
Place = tuple[str, str]
"""(path, key of the symbol)"""


class Caller(NamedTuple):
    """``line`` of the test; ``how``: in words; ``sure``: 1, or less for one that stands for others."""

    test: TestId
    line: int
    how: str
    sure: float


def callers(
    inventory: Inventory, words: frozenset[str], tests: Iterable[tuple[TestId, int]]
) -> dict[str, list[Caller]]:
    """Of the tests (with their lines), by word: those that call it, in their order."""
    mentioning = _Mentioning(inventory, words)
    among = list(tests)
    through: dict[str, dict[Place, list[int]]] = defaultdict(lambda: defaultdict(list))
    for at, (test, _) in enumerate(among):
        for place, used in mentioning.of(test):
            for word in used:
                through[word][place].append(at)
    return {word: _kept(inventory, among, through[word]) for word in sorted(through)}


def _kept(inventory: Inventory, among: Sequence[tuple[TestId, int]], places: dict[Place, list[int]]) -> list[Caller]:
    found: dict[int, Caller] = {}
    shared = {place: users for place, users in places.items() if len(users) > ALIKE}
    for place, users in places.items():
        if place not in shared:
            for at in users:
                found[at] = Caller(*among[at], "calls it", 1.0)
    for (path, key), users in shared.items():
        for at in users:
            known = inventory.known(among[at][0].file)[among[at][0]]
            if known.origin == (path, key):
                found[at] = Caller(*among[at], "calls it", 1.0)
        how = f"calls it through {key} of {path}, as {len(users) - 1} others do, of which {ALIKE} are taken"
        for at in _spread(among, users):
            found.setdefault(at, Caller(*among[at], how, 0.5))
    return [found[at] for at in sorted(found)]


def _spread(among: Sequence[tuple[TestId, int]], users: Sequence[int]) -> list[int]:
    """ALIKE of the users, of as many classes as can be."""
    by_class: dict[tuple[str, str], list[int]] = defaultdict(list)
    for at in users:
        by_class[among[at][0].file, among[at][0].cls].append(at)
    ranks = sorted((rank, at) for group in by_class.values() for rank, at in enumerate(group))
    return [at for _, at in ranks[:ALIKE]]


class _Mentioning:
    """The symbols that mention one of the words, looked for once a file."""

    def __init__(self, inventory: Inventory, wanted: frozenset[str]) -> None:
        self.inventory, self.wanted = inventory, wanted
        self._symbols: dict[str, dict[str, frozenset[str]]] = {}

    def of(self, test: TestId) -> list[tuple[Place, frozenset[str]]]:
        """What the test reaches of them."""
        here, made = self._in(test.file), self._in(self.inventory.known(test.file)[test].origin.path)
        if not here and not made:
            return []
        found: list[tuple[Place, frozenset[str]]] = []
        for path, keys in self.inventory.reached(test):
            table = self._in(path)
            found.extend(((path, key), table[key]) for key in table if key in keys)
        return found

    def _in(self, path: str) -> dict[str, frozenset[str]]:
        found = self._symbols.get(path)
        if found is None:
            record = self.inventory.files[path]
            symbols = record.symbols.values() if not self.wanted.isdisjoint(record.mentions) else ()
            used = ((symbol.key, self.wanted.intersection(symbol.attrs)) for symbol in symbols)
            found = self._symbols[path] = {key: words for key, words in used if words}
        return found
