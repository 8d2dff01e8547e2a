"""Users of a changed name inside of torch: who imports it, and what of theirs reaches it; with a bound."""

from __future__ import annotations

from dataclasses import dataclass

from selector.discover.cache import InventoryCache
from selector.discover.imports import taken
from selector.discover.inventory import record_of
from selector.discover.reach import Reach
from selector.discover.records import MODULE, FileRecord, Import
from selector.discover.sources import Sources
from selector.model import Tree

MAX_STEPS = 2
MAX_USERS = 25
"""modules that use one name beyond which it is not followed: it is a tool of all of torch, and widens"""
MAX_FILES = 60
"""modules of torch that are read for one changed file"""


@dataclass(frozen=True, slots=True)
class User:
    """A module that uses changed names: ``names`` are its own that do, ``through`` one that they use, ``origins`` the
    names of the changed module that they come from."""

    path: str
    names: frozenset[str]
    through: str
    origins: frozenset[str]
    steps: int


def users(
    path: str, touched: frozenset[str], tree: Tree, cache: InventoryCache | None, sources: Sources
) -> tuple[list[User], dict[str, str]]:
    """Modules of torch that use ``touched`` names of the module ``path``, nearest first, and the names that were not
    followed, with the reason."""
    found: dict[str, User] = {}
    given_up: dict[str, str] = {}
    read = 0
    frontier = [User(path, touched, "", touched, 0)]
    while frontier:
        at = frontier.pop(0)
        by_module = _importers(at.path, at.names, sources)
        for name, modules in _by_name(by_module).items():
            if len(modules) > MAX_USERS:
                text = f"{len(modules)} modules of torch use {name}: it is not followed through more than {MAX_USERS}"
                given_up.setdefault(next(iter(sorted(at.origins & {name})), min(at.origins, default=name)), text)
                for module in modules:
                    by_module[module] = [one for one in by_module[module] if one[1] != name]
        for module, bound in sorted(by_module.items()):
            if not bound or module == path or module in found:
                continue
            if read >= MAX_FILES:
                text = f"more than {MAX_FILES} modules of torch use what changed: the rest is not followed"
                given_up.setdefault(min(at.origins, default=at.path), text)
                break
            read += 1
            user = _user(at, module, bound, tree, cache)
            if user is not None:
                found[module] = user
                if user.steps < MAX_STEPS:
                    frontier.append(user)
    return sorted(found.values(), key=lambda one: (one.steps, one.path)), given_up


def _importers(path: str, names: frozenset[str], sources: Sources) -> dict[str, list[tuple[Import, str]]]:
    """module -> its imports of the names ('' for the module itself)."""
    found: dict[str, list[tuple[Import, str]]] = {}
    for at, one in sources.importers(path):
        name = taken(at, one, path)
        if name is not None and (name in ("", "*") or name in names):
            found.setdefault(at, []).append((one, name))
    return found


def _by_name(by_module: dict[str, list[tuple[Import, str]]]) -> dict[str, set[str]]:
    users: dict[str, set[str]] = {}
    for module, bound in by_module.items():
        for _, name in bound:
            if name not in ("", "*"):
                users.setdefault(name, set()).add(module)
    return users


def _user(
    at: User, module: str, bound: list[tuple[Import, str]], tree: Tree, cache: InventoryCache | None
) -> User | None:
    paths = tree.paths()
    if module not in paths:
        return None
    try:
        source = tree.read(module)
    except (KeyError, OSError):
        return None  # listed, and not there: as little known as a module that cannot be parsed
    record = record_of(source, paths[module], cache)
    start: dict[str, frozenset[str]] = {}
    through = ""
    for one, name in bound:
        if name and name != "*" and one.local in record.symbols:
            start[one.local] = frozenset()
            through = through or name
        else:
            for key, used in _mentioning(record, one.local, at.names, star=name == "*"):
                start[key] = frozenset()
                through = through or used
    if not start:
        return None
    grown = Reach(record).dependents(start)
    names = {key.partition(".")[0] for key in grown if "[" not in key and key != MODULE}
    own = frozenset(n for n in names if n in record.symbols and record.symbols[n].kind != "import")
    if not own:
        return None
    return User(module, own, through, at.origins & {through} or at.origins, at.steps + 1)


def _mentioning(record: FileRecord, local: str, names: frozenset[str], *, star: bool) -> list[tuple[str, str]]:
    """(symbol, changed name) of the symbols that say ``module.name`` (or, after ``import *``, the name)."""
    found = []
    for key, symbol in record.symbols.items():
        used = names & set(symbol.attrs) if not star and local in symbol.refs else frozenset[str]()
        if used:
            found.append((key, min(used)))
    return found
