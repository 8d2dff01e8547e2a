"""One source file's bytes to its record, by ``ast``: nothing is imported or run."""

from __future__ import annotations

import ast
import re
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator

from selector.discover import literals, programs
from selector.discover.classes import PARAMETRIZED, Function, class_record
from selector.discover.normal import Names, body_without_docstring, digest, fingerprint, tests_in
from selector.discover.records import (
    MAKES,
    MODULE,
    UNKNOWN,
    FileRecord,
    Import,
    Instantiation,
    Symbol,
    SymbolKind,
    mentions,
    unreadable,
)

MAX_BYTES = 8_000_000
"""a larger file is not parsed: upstream's largest source has 1.4 MB"""

Loops = dict[str, list[str]]
"""variable of a surrounding ``for`` -> the names it runs over"""
_MAKES = re.compile(rb"\bsetattr\(|\b(?:globals|locals|vars)\(\)\[|\btype\(|^ +class \w*[Tt]est", re.MULTILINE)
"""text without which no function of a file can make tests"""
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
        return _File(tree, makes=_MAKES.search(source) is not None).record()
    except SyntaxError as exc:
        # covers wrong encodings too: the compiler decodes by the file's own coding line
        return unreadable(f"line {exc.lineno or 1}: {exc.msg}")
    except (ValueError, UnicodeDecodeError) as exc:
        return unreadable(f"not Python source: {exc}")
    except (RecursionError, MemoryError):
        return unreadable("nested too deeply to be read")


class _File:
    def __init__(self, tree: ast.Module, *, makes: bool) -> None:
        self.body, self.makes = tree.body, makes
        self.tests = 0
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
            if literals.dotted(node.value.func).rpartition(".")[2] in (MAKES, PARAMETRIZED):
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
            if literals.dotted(call.func).endswith(PARAMETRIZED):
                self.parametrized.add(name)
            else:
                limits = {k.arg: self.devices(k.value) for k in call.keywords if k.arg in ("only_for", "except_for")}
                found = Instantiation(call.lineno, limits.get("only_for"), limits.get("except_for"))
                self.instantiated[name].append(found)
            self.instantiated_by[name].append(call)
            if name not in self.classes:
                # a class of another file: what is made of it counts as loose code of this one
                made = ast.Call(call.func, [ast.Name(name, ast.Load()), *call.args[1:]], call.keywords)
                self.loose.append(ast.copy_location(ast.Expr(ast.copy_location(made, call)), call))

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
        nested: dict[str, ast.ClassDef] = {}
        for name, cls in self.classes.items():
            symbols.update(self.class_symbols(name, cls, symbols.get(name), nested))
        if self.loose:
            symbols[MODULE] = self.symbol(MODULE, "module", self.loose, *_span(self.loose))
        bound = tuple(self.imports)
        made = self.made_by_code()
        nested |= self.made_classes(made)
        classes = {
            name: class_record(
                name, cls, self.scope, tuple(self.instantiated.get(name, ())), parametrized=name in self.parametrized
            )
            for name, cls in (self.classes | nested).items()
        }
        return FileRecord("", bound, symbols, classes, mentions(symbols, bound), made, self.tests)

    def made_by_code(self) -> dict[str, programs.Node]:
        """What makes tests when it runs; nothing where no function does and the module hands no class to one."""
        found: dict[str, programs.Node] = {}
        for name, statements in self.definitions.items() if self.makes else ():
            last = statements[-1]
            program = programs.of_function(last) if isinstance(last, Function) else None
            if program is not None:
                found[name] = program
        module = programs.of_module(self.body, frozenset(self.classes), frozenset(found))
        if module:
            for name in programs.called(module) & self.definitions.keys() - found.keys():
                last = self.definitions[name][-1]
                program = programs.of_function(last, handing_on=True) if isinstance(last, Function) else None
                if program is not None:
                    found[name] = program
        return {**found, programs.MODULE_PROGRAM: module} if module else found

    def made_classes(self, made: dict[str, programs.Node]) -> dict[str, ast.ClassDef]:
        """Classes with tests that such a function defines; their code is a part of the function's symbol."""
        return {
            f"{name}.<locals>.{inner.name}": inner
            for name in made
            if name in self.definitions
            for inner in ast.walk(self.definitions[name][-1])
            if isinstance(inner, ast.ClassDef)
            and any(isinstance(one, Function) and one.name.startswith("test") for one in inner.body)
        }

    def symbol(
        self, key: str, kind: SymbolKind, nodes: Iterable[ast.AST], line: int, end: int, own: str | None = None
    ) -> Symbol:
        names = Names()
        hashed = own if own is not None else fingerprint(nodes, names)
        return self.finish(key, kind, line, end, hashed, names)

    def finish(self, key: str, kind: SymbolKind, line: int, end: int, own: str, names: Names, soft: str = "") -> Symbol:
        self.tests += names.inner
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

    def class_symbols(
        self, name: str, cls: ast.ClassDef, twice: Symbol | None, nested: dict[str, ast.ClassDef]
    ) -> dict[str, Symbol]:
        """The class's frame and its methods; classes inside of it are added to ``nested`` and get symbols of their own
        where they hold tests."""
        symbols: dict[str, Symbol] = {}
        inside: list[str] = []
        self.tests += tests_in(cls) if twice is None else 0  # the symbol of both has counted them
        frame: list[ast.AST] = [*cls.decorator_list, *cls.bases, *cls.keywords, *self.instantiated_by.get(name, [])]
        methods: dict[str, list[Function]] = defaultdict(list)
        for statement in body_without_docstring(cls):
            if isinstance(statement, Function) and statement.name not in _FIXTURES:
                methods[statement.name].append(statement)
            elif isinstance(statement, ast.ClassDef) and _has_tests(statement):
                key = f"{name}.{statement.name}"
                nested[key] = statement
                inside.append(key)
                symbols |= self.class_symbols(key, statement, None, nested)
            else:
                frame.append(statement)
        if twice is None:
            one = self.symbol(name, "class", frame, cls.lineno, cls.end_lineno or cls.lineno)
            symbols[name] = one._replace(refs=tuple(sorted({*one.refs, *inside})))
        for method, nodes in methods.items():
            key = f"{name}.{method}"
            # the name is the key, not part of the hash: a renamed test is found by its hash
            names = Names()
            body = digest([fingerprint(_without_name(node), names) for node in nodes])
            shell = _shell(nodes, names)
            own = digest([shell, body]) if shell else body
            found = self.finish(key, "method", *_span(nodes), own, names)
            symbols[key] = found._replace(shell=shell, body=body) if shell else found
        return symbols


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
    return literals.dotted(node.value.func).rpartition(".")[2] in (MAKES, PARAMETRIZED)


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
    return [node.args, *returns, *body_without_docstring(node)]


def _has_tests(cls: ast.ClassDef) -> bool:
    return any(
        (isinstance(one, Function) and one.name.startswith("test"))
        or (isinstance(one, ast.ClassDef) and _has_tests(one))
        for one in cls.body
    )


def _shell(nodes: Iterable[Function], names: Names) -> str:
    """The hash of decorators alone; '' where there are none."""
    decorators = [d for node in nodes for d in node.decorator_list]
    return fingerprint(decorators, names) if decorators else ""


def _span(nodes: Iterable[ast.AST]) -> tuple[int, int]:
    lines = [getattr(n, "lineno", 0) for n in nodes]
    ends = [getattr(n, "end_lineno", 0) or 0 for n in nodes]
    return min(lines, default=0), max(ends, default=0)
