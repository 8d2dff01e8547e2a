"""Puts a fault into a process that has torch imported: code objects, entries of op databases, kernels of the device.

A mutated source is compiled as a whole, and every function that exists already gets the code that the new source has
for it (same qualified name, same first line). What a module did while it was imported is not done again.
"""

from __future__ import annotations

import ast
import builtins
import gc
import importlib
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from selector.replay.entries import entry_name
from selector.replay.model import Fault

HITS = "_replay_hits"
"""Builtin that probes write to: a byte a fault."""


class Modules:
    """The modules of the installed torch that faults lie in, their sources, and the functions made of them."""

    def __init__(self, site: Path, paths: Iterable[str]) -> None:
        self._module: dict[str, ModuleType] = {}
        self.sources: dict[str, bytes] = {}
        for path in sorted(set(paths)):
            module = importlib.import_module(_module_name(path))
            self._module[path] = module
            self.sources[path] = (site / path).read_bytes()
        self._file = {path: str(module.__file__) for path, module in self._module.items()}
        wanted = set(self._file.values())
        self._functions: dict[str, list[FunctionType]] = defaultdict(list)
        for found in gc.get_objects():
            if type(found) is FunctionType and found.__code__.co_filename in wanted:
                self._functions[found.__code__.co_filename].append(found)

    def module(self, path: str) -> ModuleType:
        return self._module[path]

    def swap(self, path: str, source: bytes | ast.Module) -> list[tuple[FunctionType, CodeType]]:
        """Gives every function of the file its code of another source; the old codes, to be put back."""
        functions = self._functions[self._file[path]]
        new = self._compiled(path, source, {_key(function.__code__): function.__code__ for function in functions})
        old = []
        for function in functions:
            code = function.__code__
            mine = new.get(_key(code))
            if mine is not None and mine != code and mine.co_freevars == code.co_freevars:
                old.append((function, code))
                function.__code__ = mine
        return old

    def _compiled(
        self, path: str, source: bytes | ast.Module, old: Mapping[tuple[str, int], CodeType]
    ) -> dict[tuple[str, int], CodeType]:
        """The codes of a source. A closure that exists keeps its cells: code that has lost its last use of one must
        still name it, or it could not take the old one's place."""
        new = _codes(compile(source, self._file[path], "exec", dont_inherit=True))
        lost = {
            key: sorted(set(old[key].co_freevars) - set(code.co_freevars))
            for key, code in new.items()
            if key in old and old[key].co_freevars != code.co_freevars
        }
        if not lost:
            return new
        tree = source if isinstance(source, ast.Module) else ast.parse(source)
        _Naming(lost).visit(tree)
        return _codes(compile(tree, self._file[path], "exec", dont_inherit=True))

    def probe(self, faults: Mapping[int, Fault]) -> list[tuple[FunctionType, CodeType]]:
        """Makes every fault's statement set its byte of HITS when it is reached; the old codes, to be put back."""
        setattr(builtins, HITS, bytearray(max(faults, default=0) + 1))
        by_path: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        for number, fault in faults.items():
            if not fault.native and not fault.flag:
                by_path[fault.path][fault.line].append(number)
        old = []
        for path, lines in by_path.items():
            old += self.swap(path, _probed(self.sources[path], lines))
        return old


def take_hits() -> list[int]:
    """The faults that were reached since the last look."""
    hits: bytearray = getattr(builtins, HITS)
    found = [number for number, hit in enumerate(hits) if hit]
    hits[:] = bytes(len(hits))
    return found


def inject(fault: Fault, modules: Modules) -> int:
    """Puts the fault in. Returns how many functions, entries or kernels it changed; 0: it has no place here."""
    if fault.native:
        from relay.worker.replay.kernels import break_kernel

        return break_kernel(fault.op, fault.kind)
    if fault.flag:
        return _flip(fault, modules)
    return len(modules.swap(fault.path, fault.edit.apply(modules.sources[fault.path])))


def _flip(fault: Fault, modules: Modules) -> int:
    """Evaluates the entry as it is written and as the fault writes it; what differs goes to the entries that exist."""
    source, module = modules.sources[fault.path], modules.module(fault.path)
    before: Any = _made(source, fault, module)
    after: Any = _made(fault.edit.apply(source), fault, module)
    old = vars(before)
    differ = {
        name: value
        for name, value in vars(after).items()
        if isinstance(value, (bool, int, str, type(None))) and old.get(name) != value
    }
    entries = list(_entries(type(before), old["name"], old.get("variant_test_name", "")))
    for entry in entries:
        vars(entry).update(differ)
    return len(entries) if differ else 0


def _made(source: bytes, fault: Fault, module: ModuleType) -> Any:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and entry_name(node) == fault.symbol:
            assert node.end_lineno is not None
            if node.lineno <= fault.line <= node.end_lineno:
                return eval(compile(ast.Expression(node), "<entry>", "eval"), vars(module))
    raise LookupError(f"{fault.path} has no entry {fault.symbol} at line {fault.line}")


def _entries(kind: type, name: str, variant: str) -> Iterator[Any]:
    lists = sys.modules["torch.testing._internal.common_methods_invocations"]
    seen: set[int] = set()
    for found in vars(lists).values():
        for entry in found if isinstance(found, list) else ():
            names = getattr(entry, "name", ""), getattr(entry, "variant_test_name", "")
            if type(entry) is kind and names == (name, variant) and id(entry) not in seen:
                seen.add(id(entry))
                yield entry


def _module_name(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _codes(code: CodeType) -> dict[tuple[str, int], CodeType]:
    """Every code object inside of one, by qualified name and first line; those that share both are left out."""
    found: dict[tuple[str, int], CodeType] = {}
    twice: set[tuple[str, int]] = set()
    todo = [code]
    while todo:
        for const in todo.pop().co_consts:
            if isinstance(const, CodeType):
                key = (const.co_qualname, const.co_firstlineno)
                if key in found:
                    twice.add(key)
                found[key] = const
                todo.append(const)
    return {key: value for key, value in found.items() if key not in twice}


def _key(code: CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno


class _Naming(ast.NodeVisitor):
    """Names variables in functions, in a statement that is never run and that the compiler leaves out."""

    def __init__(self, names: Mapping[tuple[str, int], list[str]]) -> None:
        self._names = names
        self._prefix = ""

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._inside(node, f"{self._prefix}{node.name}.")

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        name = f"{self._prefix}{node.name}"
        named = self._names.get((name, first))
        self._inside(node, f"{name}.<locals>.")
        if named:
            never = ast.parse(f"if False: ({', '.join(named)},)").body[0]
            for inner in ast.walk(never):
                ast.copy_location(inner, node.body[-1])
            node.body.append(never)

    def _inside(self, node: ast.AST, prefix: str) -> None:
        outer, self._prefix = self._prefix, prefix
        self.generic_visit(node)
        self._prefix = outer


class _Probes(ast.NodeTransformer):
    def __init__(self, lines: Mapping[int, list[int]]) -> None:
        self._lines = lines
        self.placed: set[int] = set()

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, None)
            if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
                setattr(node, name, [new for statement in body for new in self._with_probe(statement)])
        return node

    def _with_probe(self, statement: ast.stmt) -> list[ast.stmt]:
        numbers = self._lines.get(statement.lineno, ())
        made: list[ast.stmt] = []
        for number in numbers:
            probe = ast.parse(f"{HITS}[{number}] = 1").body[0]
            made.append(ast.copy_location(probe, statement))
        return [*(ast.fix_missing_locations(probe) for probe in made), statement]


def _probed(source: bytes, lines: Mapping[int, list[int]]) -> ast.Module:
    """The source with a probe in front of each statement that begins in one of the lines."""
    tree = _Probes(lines).visit(ast.parse(source))
    assert isinstance(tree, ast.Module)
    return tree
