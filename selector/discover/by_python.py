"""Impacts of changed Python files: test files, the shared test library, and torch's own modules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from selector.discover.cache import InventoryCache
from selector.discover.filekinds import FileKind, area_of
from selector.discover.findings import Findings
from selector.discover.imports import TESTS, taken
from selector.discover.inventory import record_of
from selector.discover.opindex import OpIndex
from selector.discover.reach import Reach, changed_symbols
from selector.discover.records import MODULE, FileRecord
from selector.discover.spread import Spreader
from selector.model import Evidence, FileChange, TestId, Tree

MANY_HITS = 30_000
"""tests reached, counted again for every symbol, after which the rest is followed file by file"""
_EVERYWHERE = frozenset({"main", "run", "init", "get", "set", "wrapper", "inner", "apply", "call", "forward", "step"})


@dataclass(frozen=True, slots=True)
class PythonChange:
    """Both sides of a Python file and the keys of the symbols that differ; ``soft``: entries of an op database of
    which only skips or decorators differ."""

    file: FileChange
    kind: FileKind
    old: FileRecord
    new: FileRecord
    changed: frozenset[str]
    soft: frozenset[str]

    @property
    def path(self) -> str:
        return self.file.path

    @property
    def problem(self) -> str:
        return self.new.problem or self.old.problem

    @property
    def cosmetic(self) -> bool:
        """Only comments, formatting or docstrings differ (a pure rename is not cosmetic)."""
        return not (self.problem or self.changed or self.soft or self.file.status != "modified")

    def place(self, symbol: str) -> int | None:
        found = self.new.symbols.get(symbol)
        return found.line if found is not None and found.line else None


def compare(file: FileChange, kind: FileKind, old: FileRecord, new: FileRecord) -> PythonChange:
    """Compares the two sides by the normalised syntax of their symbols."""
    soft = frozenset(key for key, s in new.symbols.items() if key in old.symbols and s.soft != old.symbols[key].soft)
    changed = changed_symbols(old.symbols, new.symbols)
    return PythonChange(file, kind, old, new, changed, soft - changed)


# ---------------------------------------------------------------------------------------------------------- test files


def renamed_tests(changes: list[PythonChange]) -> dict[TestId, TestId]:
    """New tests that are old ones under another name (same body, nothing else like it): new id -> old id."""
    gone: dict[str, list[TestId]] = defaultdict(list)
    fresh: dict[str, list[TestId]] = defaultdict(list)
    for change in changes:
        before, after = _tests(change.old), _tests(change.new)
        old_path = change.file.old_path or change.path
        for (cls, name), own in before.items():
            if (cls, name) not in after or old_path != change.path:
                gone[own].append(TestId(old_path, cls, name))
        for (cls, name), own in after.items():
            if (cls, name) not in before or old_path != change.path:
                fresh[own].append(TestId(change.path, cls, name))
    return {new[0]: gone[own][0] for own, new in fresh.items() if len(new) == 1 and len(gone[own]) == 1}


def test_file(change: PythonChange, renamed: dict[TestId, TestId], findings: Findings) -> None:
    """New, edited, renamed and gone tests of one file under ``test/``. What helpers reach is ``spread``'s part."""
    before, after = _tests(change.old), _tests(change.new)
    old_path = change.file.old_path or change.path
    came_from = set(renamed.values())
    for test, known in findings.inventory.known(change.path).items():
        if known.how != "written":
            continue
        found = known.method
        at = (test.cls, test.method)
        key = f"{test.cls}.{test.method}"
        if test in renamed:
            code, text = "renamed-test", f"was {renamed[test]}"
        elif at not in before:
            code, text = "new-test", f"{key} is new in this change"
        elif before[at] != after.get(at):
            code, text = "edited-test", f"{key} itself is edited"
        else:
            continue
        findings.add(test, code, Evidence(code, text, change.path, found.line, key))
        for other in findings.inventory.derived(change.path, key):
            fact = Evidence(code, f"runs {key} of {change.path}: {text}", change.path, found.line, key)
            findings.add(other, code, fact)
    for cls, name in sorted(before.keys() - after.keys()):
        gone = TestId(old_path, cls, name)
        if gone not in came_from:
            place = Evidence("gone-test", f"{cls}.{name} is in the base only", old_path, symbol=f"{cls}.{name}")
            findings.decide(str(gone), "gone", "gone-test", "the change removes this test: it cannot run", place)


def helpers(changes: list[PythonChange], findings: Findings, spreader: Spreader, *, batched: bool) -> None:
    """Tests that reach a changed helper: in its file, through other test modules, through the shared test library.

    ``batched``: all changed symbols of a file at once; the evidence then names the file and not the symbol.
    """
    work = 0
    for change in changes:
        tests = {f"{cls}.{name}" for cls, name in _tests(change.old) | _tests(change.new)}
        symbols = sorted(key for key in change.changed - tests if "[" not in key)
        while symbols:
            size = len(symbols) if batched or work > MANY_HITS else 1
            work += _helper_group(change, change.path, symbols[:size], findings, spreader)
            symbols = symbols[size:]
        if change.file.status == "renamed" and change.file.old_path:
            # who still imports the file by its old name
            old = sorted(key for key in change.old.symbols if "[" not in key)
            _helper_group(change, change.file.old_path, old, findings, spreader)


def _helper_group(change: PythonChange, path: str, group: list[str], findings: Findings, spreader: Spreader) -> int:
    name = group[0] if len(group) == 1 else None
    label = name if name and name != MODULE else "module-level code" if name == MODULE else f"{len(group)} symbols"
    start = {key: frozenset[str]() for key in group}
    gone = {key: frozenset[str]() for key in group if key not in change.new.symbols}
    if gone:
        # what used it in the base and is still there uses a name that is no more
        users = Reach(change.old).dependents(gone)
        start |= {key: methods for key, methods in users.items() if key in change.new.symbols}
    reached = list(spreader.spread(path, start))
    crowd = max(0.2, min(1.0, 300 / max(1, len(reached))))
    for hit in reached:
        own_file = hit.test.file == path
        code = "testlib" if change.kind is FileKind.TESTLIB else "helper" if own_file else "helper-imported"
        through = "" if hit.through in (name, f"{hit.test.cls}.{hit.test.method}") else f" through {hit.through}"
        fact = Evidence(
            "helper",
            f"reaches {label} of {path}{through}",
            path,
            change.place(name) if name else None,
            name,
        )
        # what the test uses itself tells more than what its helpers use
        findings.add(hit.test, code, fact, crowd if code == "testlib" else 1.0, first=hit.through == name)
    entries = any("[" in key for key in Reach(change.new).dependents({key: frozenset() for key in group}))
    if not (reached or entries or name is None or _is_import(change, name)) and change.kind is FileKind.TESTLIB:
        findings.not_mapped(change.path, f"no test was found to reach {label}", name)
    return len(reached)


def _is_import(change: PythonChange, key: str) -> bool:
    symbol = change.new.symbols.get(key) or change.old.symbols.get(key)
    return symbol is not None and symbol.kind == "import"


def _tests(record: FileRecord) -> dict[tuple[str, str], str]:
    return {
        (cls.name, test.name): record.symbols[f"{cls.name}.{test.name}"].own
        for cls in record.classes.values()
        for test in cls.tests
        if f"{cls.name}.{test.name}" in record.symbols
    }


# ------------------------------------------------------------------------------------------------------ torch's modules


def torch_module(
    change: PythonChange, findings: Findings, index: OpIndex, tree: Tree, cache: InventoryCache | None
) -> None:
    """Tests that import a changed module of torch, use a changed name of it, or draw an op of that name."""
    reach = Reach(change.new)
    grown = reach.dependents({key: frozenset[str]() for key in change.changed})
    names = {key for key in grown if "." not in key and key != MODULE}
    names |= {key.partition(".")[0] for key in change.changed if key not in change.new.symbols} - {MODULE}
    touched = {name for name in names if not _is_import(change, name)}
    mapped = _by_import(change, touched, findings, tree, cache)
    mapped |= _by_ops_and_modules(change, touched, findings, index)
    mapped |= _by_name(change, touched, findings)
    # a changed symbol counts as mapped when it, or something that depends on it, led to a test
    for key in sorted(change.changed):
        if _is_import(change, key) or key == "__all__":
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


def areas(paths: Iterable[str], findings: Findings) -> None:
    """The folders that hold the tests of the changed parts of torch; one pass for all paths."""
    prefixes: dict[str, str] = {}
    for path in paths:
        for prefix in area_of(path):
            prefixes.setdefault(prefix, path)
    for test, _, _ in findings.inventory.tests() if prefixes else ():
        for prefix, path in prefixes.items():
            if test.file.startswith(prefix):
                text = f"{prefix} holds the tests of this part of torch"
                findings.add(test, "area", Evidence("area", text, path))
