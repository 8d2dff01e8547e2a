"""Entries of the op databases, release against release: by their source, and by what the torches themselves say.

The source tells that an entry changed and in which part; only an evaluated database tells which dtypes it has. Where
both are given they are joined by the op's name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from selector.discover.imports import is_testlib
from selector.discover.inventory import Inventory
from selector.discover.normal import digest
from selector.model import OpDatabase, OpEntry

Aspect = Literal["new", "gone", "dtypes", "definition", "samples", "skips"]
ASPECTS: tuple[Aspect, ...] = get_args(Aspect)
"""``definition``: arguments of the entry but its skips and decorators; ``samples``: a function that it names (what
makes its inputs); ``skips``: skips, decorators and tolerances; ``dtypes``: by the evaluated databases"""


@dataclass(frozen=True, slots=True)
class EntryChange:
    """An entry that differs. ``label``: its name and, after a dot, its variant; ``names``: what ``@ops`` may know it by
    (one where a database tells name and variant apart); ``modules``: it is one of modules or optimizers; ``lists``: the
    databases that hold it; ``gained``, ``lost``: dtypes, empty without evaluated databases."""

    label: str
    names: tuple[str, ...]
    modules: bool
    aspects: tuple[Aspect, ...]
    lists: tuple[str, ...]
    gained: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


def compare_entries(
    old: Inventory, new: Inventory, old_ops: OpDatabase | None = None, new_ops: OpDatabase | None = None
) -> dict[str, EntryChange]:
    """Entries that differ, by label."""
    before, after = _written(old), _written(new)
    found: dict[str, set[Aspect]] = defaultdict(set)
    lists: dict[str, set[str]] = defaultdict(set)
    for name in before.keys() | after.keys():
        was, now = before.get(name, {}), after.get(name, {})
        lists[name].update(key.partition("[")[0] for key in was.keys() | now.keys())
        if not was or not now:
            found[name].add("gone" if was else "new")
            continue
        for one in was.keys() | now.keys():
            found[name] |= _aspects(was.get(one), now.get(one))
    gained: dict[str, tuple[str, ...]] = {}
    lost: dict[str, tuple[str, ...]] = {}
    if old_ops is not None and new_ops is not None:
        had, has = _evaluated(old_ops), _evaluated(new_ops)
        for name in had.keys() | has.keys():
            if name not in had or name not in has:
                found[name] -= {"new", "gone"}  # the torches know better than their sources
                found[name].add("gone" if name in had else "new")
                lists[name].update(one for e in (had.get(name) or has[name]) for one in e.lists)
                continue
            a, b = _dtypes(had[name]), _dtypes(has[name])
            gained[name], lost[name] = tuple(sorted(b - a)), tuple(sorted(a - b))
            if a != b:
                found[name].add("dtypes")
                lists[name].update(one for e in has[name] for one in e.lists)
    known = {entry.name for database in (old_ops, new_ops) if database is not None for entry in database.ops}
    return {
        name: EntryChange(
            name,
            _names(name, known),
            any("module" in one or "optim" in one for one in lists[name]),
            tuple(one for one in ASPECTS if one in aspects),
            tuple(sorted(lists[name])),
            gained.get(name, ()),
            lost.get(name, ()),
        )
        for name, aspects in sorted(found.items())
        if aspects
    }


@dataclass(frozen=True, slots=True)
class _Entry:
    own: str
    soft: str
    helpers: str


def _aspects(was: _Entry | None, now: _Entry | None) -> set[Aspect]:
    if was is None or now is None:
        return {"definition"}  # it is in another list, or has another variant
    found: set[Aspect] = set()
    if was.own != now.own:
        found.add("definition")
    elif was.soft != now.soft:
        found.add("skips")
    if was.helpers != now.helpers:
        found.add("samples")
    return found


def _written(inventory: Inventory) -> dict[str, dict[str, _Entry]]:
    """label -> ``list[label]`` -> what is written there."""
    found: dict[str, dict[str, _Entry]] = defaultdict(dict)
    for path, record in inventory.files.items():
        if not is_testlib(path):
            continue
        reach = inventory.reach(path)
        for key, symbol in record.symbols.items():
            if symbol.kind != "entry":
                continue
            reached = (record.symbols[k] for k in reach.symbol(key) if k != key and k in record.symbols)
            helpers = digest(sorted(f"{s.key}={s.own}" for s in reached if s.kind not in ("import", "entry", "module")))
            found[key.partition("[")[2].removesuffix("]")][key] = _Entry(symbol.own, symbol.soft, helpers)
    return found


def _names(label: str, known: set[str]) -> tuple[str, ...]:
    """A dot may belong to the name itself (``nn.functional.relu``) or stand before a variant (``add.scalar``)."""
    shorter = label.rpartition(".")[0]
    if label in known or not shorter:
        return (label,)
    return (shorter,) if shorter in known else (label, shorter)


def _evaluated(database: OpDatabase) -> Mapping[str, list[OpEntry]]:
    found: dict[str, list[OpEntry]] = defaultdict(list)
    for entry in database.ops:
        found[f"{entry.name}.{entry.variant}" if entry.variant else entry.name].append(entry)
    return found


def _dtypes(entries: list[OpEntry]) -> set[str]:
    return {dtype for entry in entries for dtype in entry.dtypes}
