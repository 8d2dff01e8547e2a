"""One source file's bytes to its record, by ``ast``: nothing is imported or run."""

from __future__ import annotations

import ast
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator

from selector.discover import literals
from selector.discover.normal import Names, body_without_docstring, digest, fingerprint
from selector.discover.records import (
    MODULE,
    UNKNOWN,
    ClassRecord,
    DbUse,
    Decorator,
    FileRecord,
    Import,
    Instantiation,
    MethodRecord,
    Symbol,
    SymbolKind,
    mentions,
    unreadable,
)

MAX_BYTES = 8_000_000
"""a larger file is not parsed: upstream's largest source has 1.4 MB"""

Function = ast.FunctionDef | ast.AsyncFunctionDef
Loops = dict[str, list[str]]
"""variable of a surrounding ``for`` -> the names it runs over"""
_MAX_FACTOR = 100_000
_DEVICE = "instantiate_device_type_tests"
_PARAMETRIZED = "instantiate_parametrized_tests"
_SOFT = frozenset({"skips", "decorators"})
_FIXTURES = frozenset({"setUp", "tearDown", "setUpClass", "tearDownClass", "__init__", "run", "_callSetUp"})


def parse(source: bytes) -> FileRecord:
    """The record of a file's content. A file that cannot be used gives a record with ``problem`` set: never raises."""
    if len(source) > MAX_BYTES:
        return unreadable(f"{len(source)} bytes, more than the limit of {MAX_BYTES}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in upstream's strings are not ours to report
            tree = ast.parse(source)
        return _File(tree).record()
    except SyntaxError as exc:
        # covers wrong encodings too: the compiler decodes by the file's own coding line
        return unreadable(f"line {exc.lineno or 1}: {exc.msg}")
    except (ValueError, UnicodeDecodeError) as exc:
        return unreadable(f"not Python source: {exc}")
    except (RecursionError, MemoryError):
        return unreadable("nested too deeply to be read")


class _File:
    def __init__(self, tree: ast.Module) -> None:
        self.definitions: dict[str, list[ast.stmt]] = defaultdict(list)
        self.imports: list[Import] = []
        self.import_nodes: dict[str, list[ast.AST]] = defaultdict(list)
        self.classes: dict[str, ast.ClassDef] = {}
        self.loose: list[ast.stmt] = []
        self.instantiated: dict[str, list[Instantiation]] = defaultdict(list)
        self.instantiated_by: dict[str, list[ast.AST]] = defaultdict(list)
        self.parametrized: set[str] = set()
        self.values: dict[str, list[ast.expr]] = defaultdict(list)
        calls: list[tuple[ast.Call, Loops]] = []
        for statement, loops in _top(tree.body, {}):
            self.sort(statement, loops, calls)
        self.scope = {name: values[0] for name, values in self.values.items() if len(values) == 1}
        for call, loops in calls:
            self.instantiation(call, loops)
        self.names = set(self.definitions) | set(self.import_nodes)

    def sort(self, node: ast.stmt, loops: Loops, calls: list[tuple[ast.Call, Loops]]) -> None:
        if isinstance(node, Function):
            self.definitions[node.name].append(node)
        elif isinstance(node, ast.ClassDef):
            self.definitions[node.name].append(node)
            self.classes[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            named = [n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)]
            for name in named:
                self.definitions[name].append(node)
                if node.value is not None:
                    plain = len(named) == 1 and isinstance(targets[0], ast.Name) and not isinstance(node, ast.AugAssign)
                    # two entries keep the name out of the scope: it has no single value
                    self.values[name].extend([node.value] if plain else [node.value, node.value])
            if not named:
                self.loose.append(node)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            self.imported(node)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            if literals.dotted(node.value.func).rpartition(".")[2] in (_DEVICE, _PARAMETRIZED):
                calls.append((node.value, loops))
            else:
                self.loose.append(node)
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)) and not isinstance(
            node, ast.Pass
        ):
            self.loose.append(node)

    def imported(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if isinstance(node, ast.ImportFrom):
                module, name, level = node.module or "", alias.name, node.level
                one: ast.AST = ast.ImportFrom(node.module, [alias], node.level)
            else:
                module, name, level = alias.name, "", 0
                one = ast.Import([alias])
            local = alias.asname or alias.name.partition(".")[0]
            self.imports.append(Import(local, module, name, level, node.lineno))
            self.import_nodes[local].append(one)

    def instantiation(self, call: ast.Call, loops: Loops) -> None:
        target = call.args[0] if call.args else None
        if not isinstance(target, ast.Name):
            self.loose.append(ast.Expr(call))
            return
        names = loops.get(target.id, [target.id])
        for name in names:
            if literals.dotted(call.func).endswith(_PARAMETRIZED):
                self.parametrized.add(name)
            else:
                limits = {k.arg: self.devices(k.value) for k in call.keywords if k.arg in ("only_for", "except_for")}
                found = Instantiation(call.lineno, limits.get("only_for"), limits.get("except_for"))
                self.instantiated[name].append(found)
            self.instantiated_by[name].append(call)

    def devices(self, node: ast.expr) -> tuple[str, ...] | None:
        if isinstance(node, ast.Constant) and node.value is None:
            return None
        found = literals.strings(node, self.scope)
        return (UNKNOWN,) if found is None else tuple(dict.fromkeys(found))

    # ------------------------------------------------------------------------------------------------------ symbols

    def record(self) -> FileRecord:
        symbols: dict[str, Symbol] = {}
        for name, nodes in self.import_nodes.items():
            if name not in self.definitions:
                symbols[name] = self.symbol(name, "import", nodes, 0, 0)
        for name, statements in self.definitions.items():
            if name in self.classes and len(statements) == 1:
                continue
            kind: SymbolKind = "function" if isinstance(statements[0], Function) else "value"
            if name in self.classes:
                # a class that is defined twice (under if/else): one symbol of everything, its methods come below
                kind = "class"
            entries, rest = self.entries(name, statements)
            symbols.update(entries)
            nodes = [*self.import_nodes.get(name, []), *rest]
            symbols[name] = self.symbol(name, kind, nodes, *_span(statements))
        for name, cls in self.classes.items():
            symbols.update(self.class_symbols(name, cls, symbols.get(name)))
        if self.loose:
            symbols[MODULE] = self.symbol(MODULE, "module", self.loose, *_span(self.loose))
        bound = tuple(self.imports)
        classes = {name: self.class_record(name, cls) for name, cls in self.classes.items()}
        return FileRecord("", bound, symbols, classes, mentions(symbols, bound))

    def symbol(
        self, key: str, kind: SymbolKind, nodes: Iterable[ast.AST], line: int, end: int, own: str | None = None
    ) -> Symbol:
        names = Names()
        hashed = own if own is not None else fingerprint(nodes, names)
        return self.finish(key, kind, line, end, hashed, names)

    def finish(self, key: str, kind: SymbolKind, line: int, end: int, own: str, names: Names, soft: str = "") -> Symbol:
        refs = sorted((names.loads & self.names) - {key})
        return Symbol(
            key,
            kind,
            line,
            end,
            own,
            tuple(refs),
            tuple(sorted(names.selfs)),
            tuple(sorted(names.attrs)),
            tuple(sorted(names.literals)),
            soft,
        )

    def entries(self, name: str, statements: list[ast.stmt]) -> tuple[dict[str, Symbol], list[ast.AST]]:
        """Splits ``op_db = [OpInfo("add", ...), ...]`` into a symbol an entry, and what is left of the statements."""
        found: dict[str, Symbol] = {}
        rest: list[ast.AST] = []
        for statement in statements:
            value = getattr(statement, "value", None)
            infos = [e for e in value.elts if _is_info(e)] if isinstance(value, ast.List) else []
            if not isinstance(value, ast.List) or not infos:
                rest.append(statement)
                continue
            for info in infos:
                assert isinstance(info, ast.Call)
                entry = self.entry(name, info)
                if entry.key in found:  # the same name twice in one list: one symbol of both
                    entry = entry._replace(own=digest([found[entry.key].own, entry.own]))
                found[entry.key] = entry
            rest.extend(e for e in value.elts if not _is_info(e))
            rest.append(ast.Constant(len(infos)))
        return found, rest

    def entry(self, name: str, info: ast.Call) -> Symbol:
        names = Names()
        hard = [info.func, *info.args, *(k for k in info.keywords if k.arg not in _SOFT)]
        own = fingerprint(hard, names)
        # skips name tests and helpers; what they refer to does not make the op another one
        soft = fingerprint([info])
        first = info.args[0]
        value = first.value if isinstance(first, ast.Constant) else literals.dotted(first).removeprefix("torch.")
        label = value if isinstance(value, str) else repr(value)
        for keyword in info.keywords:
            if keyword.arg == "variant_test_name" and isinstance(keyword.value, ast.Constant) and keyword.value.value:
                label += f".{keyword.value.value!s}"
        line, end = info.lineno, info.end_lineno or info.lineno
        return self.finish(f"{name}[{label}]", "entry", line, end, own, names, soft)

    def class_symbols(self, name: str, cls: ast.ClassDef, twice: Symbol | None) -> dict[str, Symbol]:
        symbols: dict[str, Symbol] = {}
        frame: list[ast.AST] = [*cls.decorator_list, *cls.bases, *cls.keywords, *self.instantiated_by.get(name, [])]
        methods: dict[str, list[Function]] = defaultdict(list)
        for statement in body_without_docstring(cls):
            if isinstance(statement, Function) and statement.name not in _FIXTURES:
                methods[statement.name].append(statement)
            else:
                frame.append(statement)
        if twice is None:
            symbols[name] = self.symbol(name, "class", frame, cls.lineno, cls.end_lineno or cls.lineno)
        for method, nodes in methods.items():
            key = f"{name}.{method}"
            # the name is the key, not part of the hash: a renamed test is found by its hash
            names = Names()
            own = digest([fingerprint(_without_name(node), names) for node in nodes])
            symbols[key] = self.finish(key, "method", *_span(nodes), own, names)
        return symbols

    # ------------------------------------------------------------------------------------------------------ classes

    def class_record(self, name: str, cls: ast.ClassDef) -> ClassRecord:
        decorators = tuple(self.decorator(d, self.scope) for d in cls.decorator_list)
        scope = self.class_scope(cls)
        hardware = ""
        tests: dict[str, MethodRecord] = {}
        for statement in cls.body:
            if isinstance(statement, Function) and statement.name.startswith("test"):
                tests[statement.name] = self.test(statement, scope)
            elif isinstance(statement, ast.Assign) and literals.dotted(statement.targets[0]) == "hw_classification":
                hardware = literals.dotted(statement.value).rpartition(".")[2] or UNKNOWN
        parametrized = name in self.parametrized or any(d.name == _PARAMETRIZED for d in decorators)
        bases = tuple(literals.dotted(b) or UNKNOWN for b in cls.bases)
        made = tuple(self.instantiated.get(name, ()))
        return ClassRecord(name, cls.lineno, bases, decorators, tuple(tests.values()), made, parametrized, hardware)

    def class_scope(self, cls: ast.ClassDef) -> literals.Scope:
        """The module's names, and those that the class gives a value once (an op list made for its tests)."""
        own: dict[str, list[ast.expr]] = defaultdict(list)
        for statement in cls.body:
            if isinstance(statement, ast.Assign):
                for target in statement.targets:
                    if isinstance(target, ast.Name):
                        own[target.id].append(statement.value)
        return {**self.scope, **{name: values[0] for name, values in own.items() if len(values) == 1}}

    def test(self, node: Function, scope: literals.Scope) -> MethodRecord:
        ops: DbUse | None = None
        modules: DbUse | None = None
        dtypes: tuple[str, ...] | None = None
        factor = 1
        for decorator in node.decorator_list:
            if not isinstance(decorator, ast.Call):
                continue
            name = literals.dotted(decorator.func).rpartition(".")[2]
            if name in ("ops", "modules", "optims"):
                use = literals.database_use(decorator, scope)
                if name == "ops":
                    ops = use
                else:
                    modules = use
            elif name == "dtypes":
                dtypes = literals.dtype_names(decorator.args, scope)
            elif name in ("parametrize", "subtest"):
                factor = min(factor * _choices(decorator), _MAX_FACTOR)
            elif isinstance(decorator.func, ast.Name) and decorator.func.id in scope:
                # an alias made by functools.partial(ops, ...)
                bound = scope[decorator.func.id]
                if isinstance(bound, ast.Call) and bound.args and literals.dotted(bound.args[0]) == "ops":
                    merged = ast.Call(
                        bound.args[0], [*bound.args[1:], *decorator.args], decorator.keywords + bound.keywords
                    )
                    ops = literals.database_use(ast.copy_location(merged, decorator), scope)
        arguments = tuple(a.arg for a in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs])
        decorators = tuple(self.decorator(d, scope) for d in node.decorator_list)
        return MethodRecord(node.name, node.lineno, arguments[1:], decorators, ops, modules, dtypes, factor)

    def decorator(self, node: ast.expr, scope: literals.Scope) -> Decorator:
        if not isinstance(node, ast.Call):
            return Decorator(literals.dotted(node).rpartition(".")[2] or UNKNOWN, node.lineno)
        name = literals.dotted(node.func).rpartition(".")[2] or UNKNOWN
        args = [_short(a, scope) for a in node.args]
        args += [f"{k.arg}={_short(k.value, scope)}" for k in node.keywords if k.arg]
        names: set[str] = set()
        if not name.endswith("ops"):
            for part in [*node.args, *(k.value for k in node.keywords)]:
                for inner in ast.walk(part):
                    if isinstance(inner, ast.Name):
                        names.add(inner.id)
                    elif isinstance(inner, ast.Attribute):
                        names.add(inner.attr)
        return Decorator(name, node.lineno, tuple(args), tuple(sorted(names)))


def _top(body: list[ast.stmt], loops: Loops) -> Iterator[tuple[ast.stmt, Loops]]:
    """The statements of a module, looked for through if, try, with and for; of ``for`` over a literal the names."""
    for node in body:
        if isinstance(node, ast.If):
            if not _is_main(node):
                yield ast.copy_location(ast.Expr(node.test), node), loops
                yield from _top(node.body, loops)
            yield from _top(node.orelse, loops)
        elif isinstance(node, ast.For):
            inner = dict(loops)
            if isinstance(node.target, ast.Name) and isinstance(node.iter, ast.List | ast.Tuple):
                inner[node.target.id] = [e.id for e in node.iter.elts if isinstance(e, ast.Name)]
            kept = list(_top(node.body, inner))
            if any(not _instantiates(s) for s, _ in kept):
                # a loop that makes something: its header and its loose statements count for every test
                yield ast.For(node.target, node.iter, node.body, [], None), loops
            for statement, seen in kept:
                if _instantiates(statement) or isinstance(
                    statement, Function | ast.ClassDef | ast.Import | ast.ImportFrom
                ):
                    yield statement, seen
        elif isinstance(node, ast.Try):
            yield from _top(node.body, loops)
            for handler in node.handlers:
                yield from _top(handler.body, loops)
            yield from _top(node.orelse, loops)
            yield from _top(node.finalbody, loops)
        elif isinstance(node, ast.With):
            yield from _top(node.body, loops)
        else:
            yield node, loops


def _instantiates(node: ast.stmt) -> bool:
    if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        return False
    return literals.dotted(node.value.func).rpartition(".")[2] in (_DEVICE, _PARAMETRIZED)


def _is_main(node: ast.If) -> bool:
    test = node.test
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"


def _is_info(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and literals.dotted(node.func).endswith("Info")
        and bool(node.args)
        and (isinstance(node.args[0], ast.Constant) or bool(literals.dotted(node.args[0])))
    )


def _without_name(node: Function) -> list[ast.AST]:
    returns = [node.returns] if node.returns is not None else []
    return [*node.decorator_list, node.args, *returns, *body_without_docstring(node)]


def _span(nodes: Iterable[ast.AST]) -> tuple[int, int]:
    lines = [getattr(n, "lineno", 0) for n in nodes]
    ends = [getattr(n, "end_lineno", 0) or 0 for n in nodes]
    return min(lines, default=0), max(ends, default=0)


def _choices(call: ast.Call) -> int:
    if len(call.args) > 1:
        values = call.args[1]
        if isinstance(values, ast.List | ast.Tuple):
            return max(1, len(values.elts))
        return 2  # made elsewhere: at least as many as are worth a parametrisation
    return 1


def _short(node: ast.expr, scope: literals.Scope) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)[:80]
    name = literals.dotted(node)
    if name and name not in scope:
        return name
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) and literals.dotted(node.operand):
        return f"not {literals.dotted(node.operand)}"
    found = literals.strings(node, scope)
    return ",".join(found)[:80] if found is not None else UNKNOWN
