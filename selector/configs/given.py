"""Inputs that configs give to upstream's own tests, and modules that they add by where the class lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from selector.configs.model import Place, op_names
from selector.configs.rules import ReuseConfigs
from selector.configs.tree import Inputs, Item
from selector.model import TestId


@dataclass(frozen=True, slots=True)
class Given:
    """What one op or module of a test is called with: a call each of ``calls``; ``constructor`` None: upstream's own.
    ``seed`` is that of the config's random values, ``place`` where it was written."""

    calls: tuple[Inputs, ...]
    constructor: Inputs | None
    seed: int
    place: Place


def has_inputs(configs: ReuseConfigs, test: TestId) -> bool:
    """Whether any entry gives inputs to the test: to all of its ops and modules, or to one."""
    return any(
        m.entry.inputs or any(i.inputs or i.constructor for i in (*m.entry.ops.include, *m.entry.modules.include))
        for m in configs.matches(test)
    )


def names_with_inputs(configs: ReuseConfigs, test: TestId) -> frozenset[str] | None:
    """The ops that entries give inputs to, as they are written there; None: all of the test's."""
    entries = [match.entry for match in configs.matches(test)]
    if any(entry.inputs for entry in entries):
        return None
    return frozenset(item.name for entry in entries for item in entry.ops.include if item.inputs)


def op_inputs(configs: ReuseConfigs, test: TestId, op: str, variant: str) -> Given | None:
    """Those of the most specific entry that gives any: an item that names the op before ``edits.inputs``."""
    names = op_names(op, variant)
    for match in configs.matches(test):
        item = _named(match.entry.ops.include, names)
        calls = item.inputs if item is not None and item.inputs else match.entry.inputs
        if calls:
            return Given(calls, None, match.suite.globals.seed or 0, calls[0].place)
    return None


def module_inputs(configs: ReuseConfigs, test: TestId, name: str) -> Given | None:
    """The like for a module; one that ``supported_modules`` gives inputs to comes last."""
    names = op_names(name) | {name}
    for match in configs.matches(test):
        item = _named(match.entry.modules.include, names)
        calls = item.inputs if item is not None and item.inputs else match.entry.inputs
        if calls:
            constructor = item.constructor if item is not None else None
            return Given(calls, constructor, match.suite.globals.seed or 0, calls[0].place)
    for match in configs.matches(test)[:1]:
        item = _named(match.suite.globals.modules or (), names)
        if item is not None and item.inputs:
            return Given(item.inputs, item.constructor, match.suite.globals.seed or 0, item.place)
    return None


def modules_by_path(configs: ReuseConfigs, test: TestId) -> tuple[Item, ...]:
    """Modules that entries of the test add by ``module_path``, each once."""
    found: dict[str, Item] = {}
    for match in configs.matches(test):
        for item in match.entry.modules.include:
            if item.module_path:
                found.setdefault(item.name, item)
    return tuple(found.values())


def _named(items: Sequence[Item], names: frozenset[str]) -> Item | None:
    return next((item for item in items if item.name in names), None)
