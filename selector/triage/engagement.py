"""Whether the device that a test is given can come to run anything: the uses of all it reaches, put together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from selector.discover.cache import InventoryCache
from selector.discover.inventory import Inventory
from selector.model import TestId
from selector.triage.device_use import FORMAT, Use, from_bytes, to_bytes, uses_of

if TYPE_CHECKING:
    from collections.abc import Iterable


class Uses:
    """``uses_of`` of a tree's files, each looked at once and kept by content in ``cache``.

    ``read`` gives a path's source (KeyError, OSError: there is none); ``ids`` the content ids of the same tree.
    """

    def __init__(
        self, read: Callable[[str], bytes], ids: Mapping[str, str], cache: InventoryCache | None = None
    ) -> None:
        self._read, self.ids, self._cache = read, ids, cache
        self._known: dict[str, Mapping[str, Use] | None] = {}

    def of(self, path: str) -> Mapping[str, Use] | None:
        """The uses in a file by symbol; a function without any is left out. None: the file cannot be read or parsed."""
        if path not in self._known:
            self._known[path] = self._look(path)
        return self._known[path]

    def _look(self, path: str) -> Mapping[str, Use] | None:
        key = f"{FORMAT}-{self.ids.get(path, '')}"
        kept = self._cache.get(key) if self._cache is not None and path in self.ids else None
        if kept is not None:
            try:
                return from_bytes(kept)
            except ValueError:
                pass  # damaged: looked at again and overwritten
        try:
            source = self._read(path)
        except (KeyError, OSError):
            return None
        every = uses_of(source)
        if every is None:
            return None
        found = {name: use for name, use in every.items() if use != Use()}
        if self._cache is not None and path in self.ids:
            self._cache.put(key, to_bytes(found))
        return found


def uses_device(test: TestId, inventory: Inventory, uses: Uses) -> bool | None:
    """False: no value made from the test's device leaves for anything that could run on it. None: not known."""
    known = inventory.known(test.file).get(test)
    if known is None or known.how == "made":
        return None
    tables: dict[str, Mapping[str, Use]] = {}
    reached = inventory.reached(test)
    for path, _ in reached:
        # of a file that the change broke, the inventory has the record from before
        table = uses.of(path) if uses.ids.get(path) == inventory.ids.get(path) else None
        if table is None or inventory.files[path].problem:
            return None
        tables[path] = table
    if any(tables[path][key].own for path, keys in reached for key in keys if key in tables[path]):
        return True
    made = tables.get(known.origin.path, {})
    wrappers = tuple(name for d in known.method.decorators for name in (d.name, f"{d.name}."))
    if any(use.direct for key, use in made.items() if key in wrappers or key.startswith(wrappers[1::2])):
        return True  # a decorator of the file (a function or a class) may make the test's inputs on the device
    todo = [(known.origin.path, known.origin.key)]
    seen: set[tuple[str, str]] = set()
    while todo:
        path, key = todo.pop()
        if (path, key) in seen:
            continue
        seen.add((path, key))
        use = tables.get(path, {}).get(key, Use())
        if use.direct:
            return True
        for name in use.hands:
            targets = list(_named(name, reached))
            if not targets or not all(tables[p].get(k, Use()).takes for p, k in targets):
                return True  # what gets the device is not to be seen, or takes it under another name
            todo.extend(targets)
    return False


def _named(name: str, reached: Iterable[tuple[str, frozenset[str]]]) -> Iterable[tuple[str, str]]:
    """The functions that ``f`` or ``self.m`` can mean, among what the test reaches."""
    method = name.removeprefix("self.") if name.startswith("self.") else ""
    for path, keys in reached:
        for key in keys:
            if key == name if not method else key.rpartition(".")[2] == method and "." in key:
                yield path, key
