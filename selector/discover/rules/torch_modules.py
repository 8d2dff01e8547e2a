"""Tests that use a changed module of torch: they import it, draw its ops or modules, or use its names."""

from __future__ import annotations

from collections import defaultdict

from selector.discover.cache import InventoryCache
from selector.discover.changes import PythonChange, is_import
from selector.discover.findings import Findings
from selector.discover.imports import TESTS, taken
from selector.discover.inventory import record_of
from selector.discover.opindex import OpIndex
from selector.discover.reach import Reach
from selector.discover.records import MODULE
from selector.model import Evidence, Tree

_EVERYWHERE = frozenset({"main", "run", "init", "get", "set", "wrapper", "inner", "apply", "call", "forward", "step"})


def torch_module(
    change: PythonChange, findings: Findings, index: OpIndex, tree: Tree, cache: InventoryCache | None
) -> None:
    """Tests that import a changed module of torch, use a changed name of it, or draw an op of that name."""
    reach = Reach(change.new)
    grown = reach.dependents({key: frozenset[str]() for key in change.changed})
    names = {key for key in grown if "." not in key and key != MODULE}
    names |= {key.partition(".")[0] for key in change.changed if key not in change.new.symbols} - {MODULE}
    touched = {name for name in names if not is_import(change, name)}
    mapped = _by_import(change, touched, findings, tree, cache)
    mapped |= _by_ops_and_modules(change, touched, findings, index)
    mapped |= _by_name(change, touched, findings)
    # a changed symbol counts as mapped when it, or something that depends on it, led to a test
    for key in sorted(change.changed):
        if is_import(change, key) or key == "__all__":
            continue
        users = reach.dependents({key: frozenset()}) if key in change.new.symbols else {key: frozenset[str]()}
        if not {user.partition(".")[0] for user in users} & mapped:
            findings.not_mapped(change.path, f"no test was found to use {key}", key)


def _by_import(
    change: PythonChange, touched: set[str], findings: Findings, tree: Tree, cache: InventoryCache | None
) -> set[str]:
    mapped: set[str] = set()
    modules = [change.path, *_reexporters(change.path, touched, tree, cache)]
    for module in modules:
        for path, one, name in findings.inventory.importers(module):
            if not path.startswith(TESTS) or (name and name != "*" and name not in touched):
                continue
            if not name and one.local == "torch":
                continue  # `import torch.x.y` binds torch: use is seen by name
            reach = findings.inventory.reach(path)
            for known, keys in findings.inventory.here(path):
                test = known.id
                if name != "*" and one.local not in keys:
                    continue
                used = touched & reach.names(keys) if name in ("", "*") else {name}
                if not used and name == "*":
                    continue
                symbol = min(used, default=None)
                text = f"imports {one.name or one.module} ({path}:{one.line}) from {change.path}"
                place = change.place(symbol or "")
                findings.add(test, "import", Evidence("import", text, change.path, place, symbol))
                mapped |= used
    return mapped


def _reexporters(path: str, touched: set[str], tree: Tree, cache: InventoryCache | None) -> list[str]:
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


def _by_ops_and_modules(change: PythonChange, touched: set[str], findings: Findings, index: OpIndex) -> set[str]:
    mapped: set[str] = set()
    targets = {}
    for name in sorted(touched):
        target = index.word(name) if index.database is not None else None
        if target is not None and target.word == name:
            targets[target] = name
    for target, hit in index.hits(findings.inventory, targets):
        name = targets[target]
        text = f"runs {target.word} ({hit.how}), which is defined in {change.path}"
        fact = Evidence("op", text, change.path, change.place(name), name)
        findings.add(hit.test, "op-python", fact, hit.factor, hit.ops)
        mapped.add(name)
    if change.path.startswith("torch/nn/modules/"):
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
                findings.add(test, "module-use", Evidence("module", text, change.path, change.place(name), name))
                mapped |= {one.removeprefix("nn.") for one in drawn}
    return mapped


def _by_name(change: PythonChange, touched: set[str], findings: Findings) -> set[str]:
    mapped: set[str] = set()
    wanted = {n for n in touched if len(n) > 3 and not n.startswith("__") and n.lower() not in _EVERYWHERE}
    found = defaultdict(list)
    for path, record in findings.inventory.files.items():
        here = wanted & record.mentions if path.startswith(TESTS) else set()
        if not here:
            continue
        for test in findings.inventory.known(path):
            attrs = {a for symbol in findings.inventory.symbols(test) for a in symbol.attrs}
            for name in sorted(here & attrs):
                found[name].append(test)
    for name, tests in found.items():
        crowd = min(1.0, 300 / len(tests))
        for test in tests:
            fact = Evidence(
                "name", f"uses the name {name}, defined in {change.path}", change.path, change.place(name), name
            )
            findings.add(test, "name-use", fact, crowd)
        mapped.add(name)
    return mapped
