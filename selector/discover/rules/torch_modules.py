"""Tests that use a changed module of torch: they import it, draw its ops or modules, or use its names."""

from __future__ import annotations

from dataclasses import dataclass

from selector.discover.cache import InventoryCache
from selector.discover.calling import callers
from selector.discover.changes import PythonChange, is_import
from selector.discover.findings import Findings
from selector.discover.imports import TESTS, taken
from selector.discover.inventory import record_of
from selector.discover.opindex import OpIndex
from selector.discover.reach import Reach
from selector.discover.records import MODULE
from selector.discover.rules import followed, registered
from selector.discover.sources import Sources
from selector.model import Evidence, Tree

MAX_NAMES = 40
"""names of one module that use what changed beyond which they are not followed"""
_EVERYWHERE = frozenset({"main", "run", "init", "get", "set", "wrapper", "inner", "apply", "call", "forward", "step"})


@dataclass(frozen=True, slots=True)
class Used:
    """Names of a module of torch that a change touches: of the changed one, or of one that uses it (``because`` says
    how, ``steps`` away from the change)."""

    change: PythonChange
    path: str
    names: frozenset[str]
    because: str = ""
    steps: int = 0

    def fact(self, kind: str, text: str, symbol: str | None) -> Evidence:
        if self.steps:
            return Evidence(kind, f"{text}{self.because}", self.change.path)
        return Evidence(kind, text, self.change.path, self.change.place(symbol or ""), symbol)

    def code(self, direct: str) -> str:
        return "used-by-module" if self.steps else direct

    @property
    def factor(self) -> float:
        return 1.0 if self.steps == 0 else 0.7 ** (self.steps - 1)


def torch_module(
    change: PythonChange, findings: Findings, index: OpIndex, tree: Tree, cache: InventoryCache | None, sources: Sources
) -> None:
    """Tests that import a changed module of torch, use a changed name of it, or draw an op of that name; and the same
    for what uses the changed names inside of torch."""
    reach = Reach(change.new)
    grown = reach.dependents({key: frozenset[str]() for key in change.changed})
    names = {key for key in grown if "." not in key and key != MODULE}
    names |= {key.partition(".")[0] for key in change.changed if key not in change.new.symbols} - {MODULE}
    touched = frozenset(name for name in names if not is_import(change, name))
    mapped = _map(Used(change, change.path, touched), findings, index, tree, cache)
    mapped |= registered.registered(change, findings, index)
    users, given_up = followed.users(change.path, touched, tree, cache, sources)
    for user in users:
        if len(user.names) > MAX_NAMES:
            text = f"{len(user.names)} names of {user.path} use it: more than {MAX_NAMES} are not followed"
            given_up.setdefault(min(user.origins), text)
            continue
        because = (
            f", which uses {user.through} of {change.path}" if user.steps == 1 else f", which leads to {change.path}"
        )
        used = Used(change, user.path, user.names, because, user.steps)
        if _map(used, findings, index, tree, cache):
            mapped |= user.origins
    for name, why in sorted(given_up.items()):
        findings.not_mapped(change.path, why, name)
    # a changed symbol counts as mapped when it, or something that depends on it, led to a test
    for key in sorted(change.changed):
        if is_import(change, key) or key == "__all__":
            continue
        widest = reach.dependents({key: frozenset()}) if key in change.new.symbols else {key: frozenset[str]()}
        if not {user.partition(".")[0] for user in widest} & mapped:
            findings.not_mapped(change.path, f"no test was found to use {key}", key)


def _map(used: Used, findings: Findings, index: OpIndex, tree: Tree, cache: InventoryCache | None) -> set[str]:
    """Adds the tests of the names; returns those that led to one."""
    mapped = _by_import(used, findings, tree, cache)
    mapped |= _by_ops_and_modules(used, findings, index)
    return mapped | _by_name(used, findings)


def _by_import(used: Used, findings: Findings, tree: Tree, cache: InventoryCache | None) -> set[str]:
    mapped: set[str] = set()
    touched = used.names
    modules = [used.path, *_reexporters(used.path, touched, tree, cache)]
    for module in modules:
        for path, one, name in findings.inventory.importers(module):
            if not path.startswith(TESTS) or (name and name != "*" and name not in touched):
                continue
            if not name and one.local == "torch":
                continue  # `import torch.x.y` binds torch: use is seen by name
            reach = findings.inventory.reach(path)
            for known, keys in findings.inventory.here(path):
                if name != "*" and one.local not in keys:
                    continue
                taken_names = touched & reach.names(keys) if name in ("", "*") else {name}
                if not taken_names and (name == "*" or used.steps):
                    continue
                symbol = min(taken_names, default=None)
                text = f"imports {one.name or one.module} ({path}:{one.line}) from {used.path}"
                findings.add(known.id, used.code("import"), used.fact("import", text, symbol), used.factor)
                mapped |= taken_names
    return mapped


def _reexporters(path: str, touched: frozenset[str], tree: Tree, cache: InventoryCache | None) -> list[str]:
    """The ``__init__.py`` files above a module that hand its changed names on."""
    found = []
    paths = tree.paths()
    folder = path.rpartition("/")[0]
    while folder:
        init = f"{folder}/__init__.py"
        if init in paths and init != path:
            record = record_of(tree.read(init), paths[init], cache)
            if any(taken(init, one, path) in ({"*"} | touched) for one in record.imports):
                found.append(init)
        folder = folder.rpartition("/")[0]
    return [init for init in found if init != "torch/__init__.py"]


def _by_ops_and_modules(used: Used, findings: Findings, index: OpIndex) -> set[str]:
    mapped: set[str] = set()
    touched = used.names
    targets = {}
    for name in sorted(touched):
        target = index.word(name) if index.database is not None else None
        if target is not None and target.word == name:
            targets[target] = name
    for target, hit in index.hits(findings.inventory, targets):
        name = targets[target]
        if used.steps and hit.called:
            continue  # at second hand, a call tells too little of it
        fact = used.fact("op", f"runs {target.word} ({hit.how}), which is defined in {used.path}", name)
        findings.add(hit.test, used.code("op-python"), fact, hit.factor * used.factor, hit.ops)
        mapped.add(name)
    if used.path.startswith("torch/nn/modules/"):
        wanted = {"nn." + name for name in touched}
        for test, _, found in findings.inventory.tests():
            use = found.modules
            if use is None:
                continue
            drawn = wanted if use.include is None else wanted & set(use.include)
            drawn = drawn - set(use.exclude)
            if drawn:
                name = min(drawn).removeprefix("nn.")
                text = f"may draw {', '.join(sorted(drawn))} from {' + '.join(use.lists) or 'its own list'}"
                findings.add(test, used.code("module-use"), used.fact("module", text, name), used.factor)
                mapped |= {one.removeprefix("nn.") for one in drawn}
    return mapped


def _by_name(used: Used, findings: Findings) -> set[str]:
    mapped: set[str] = set()
    wanted = {n for n in used.names if len(n) > 3 and not n.startswith("__") and n.lower() not in _EVERYWHERE}
    every = [(test, method.line) for test, _, method in findings.inventory.tests()]
    for name, found in callers(findings.inventory, frozenset(wanted), every).items():
        crowd = min(1.0, 300 / len(found))
        fact = used.fact("name", f"uses the name {name}, defined in {used.path}", name)
        for one in found:
            findings.add(one.test, used.code("name-use"), fact, crowd * used.factor * one.sure)
        mapped.add(name)
    return mapped
