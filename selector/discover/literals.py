"""Reads what can be read without running code: names of dtypes, devices and ops, and the filters over op databases."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from selector.discover.records import UNKNOWN, DbUse

Scope = Mapping[str, ast.expr]
"""module-level names that are assigned exactly once, with their values"""

_DEPTH = 8
_STEPS = 5_000
"""nodes that reading one expression may visit: names that stand for lists of names grow without end"""
_DTYPE_NAMES = {
    "half": "float16", "float": "float32", "double": "float64", "short": "int16", "int": "int32", "long": "int64",
    "cfloat": "complex64", "cdouble": "complex128", "chalf": "complex32",
}  # fmt: skip
_ONCE = frozenset({"none", "any_one", "any_common_cpu_cuda_one"})


def dotted(node: ast.AST) -> str:
    """``a.b.c`` of a name or an attribute chain, else ''."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([node.id, *reversed(parts)])


class _Steps:
    """A budget shared by everything that one expression leads to."""

    def __init__(self) -> None:
        self.left = _STEPS

    def spent(self) -> bool:
        self.left -= 1
        return self.left < 0


def strings(node: ast.AST | None, scope: Scope) -> tuple[str, ...] | None:
    """The strings of a literal, or of a tuple, list or set of them, looked up through ``scope``; None if it is not."""
    return _strings(node, scope, _DEPTH, _Steps())


def _strings(node: ast.AST | None, scope: Scope, depth: int, steps: _Steps) -> tuple[str, ...] | None:
    if node is None or depth == 0 or steps.spent():
        return None
    if isinstance(node, ast.Constant):
        return (node.value,) if isinstance(node.value, str) else None
    if isinstance(node, ast.Name):
        return _strings(scope.get(node.id), scope, depth - 1, steps)
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        out: list[str] = []
        for item in node.elts:
            found = _strings(item.value if isinstance(item, ast.Starred) else item, scope, depth - 1, steps)
            if found is None:
                return None
            out.extend(found)
        return tuple(out)
    if isinstance(node, ast.Dict) and all(k is not None for k in node.keys):
        return _strings(ast.Tuple([k for k in node.keys if k is not None], ast.Load()), scope, depth - 1, steps)
    if (
        isinstance(node, ast.Call)
        and dotted(node.func) in ("set", "frozenset", "tuple", "list")
        and len(node.args) == 1
    ):
        return _strings(node.args[0], scope, depth - 1, steps)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.BitOr):
        left, right = _strings(node.left, scope, depth - 1, steps), _strings(node.right, scope, depth - 1, steps)
        return None if left is None or right is None else left + right
    return None


def dtype_names(nodes: list[ast.expr], scope: Scope) -> tuple[str, ...]:
    """Names of dtypes without ``torch.``; ``?`` stands for a part that only running it could tell."""
    return _dtype_names(nodes, scope, _DEPTH, _Steps())


def _dtype_names(nodes: list[ast.expr], scope: Scope, depth: int, steps: _Steps) -> tuple[str, ...]:
    out: list[str] = []
    for node in nodes:
        if steps.spent():
            out.append(UNKNOWN)
            break
        if isinstance(node, ast.Starred):
            node = node.value
        name = dotted(node)
        if name.startswith("torch."):
            last = name.rpartition(".")[2]
            out.append(_DTYPE_NAMES.get(last, last))
        elif isinstance(node, ast.Tuple | ast.List | ast.Set):
            out.extend(_dtype_names(node.elts, scope, depth, steps))
        elif isinstance(node, ast.Name) and node.id in scope and depth:
            out.extend(_dtype_names([scope[node.id]], scope, depth - 1, steps))
        else:
            out.append(UNKNOWN)
    return tuple(dict.fromkeys(out))


def database_use(call: ast.Call, scope: Scope) -> DbUse:
    """What ``@ops(expression, dtypes=..., allowed_dtypes=...)`` (or ``@modules``) draws from."""
    reader = _Reader(scope, _Steps())
    if call.args:
        reader.read(call.args[0], _DEPTH)
    else:
        reader.sure = False
    dtypes: tuple[str, ...] | None = None
    once = False
    for keyword in call.keywords:
        if keyword.arg in ("dtypes", "allowed_dtypes"):
            name = dotted(keyword.value)
            if name.startswith("OpDTypes."):
                once = name.partition(".")[2] in _ONCE
            elif not (isinstance(keyword.value, ast.Constant) and keyword.value.value is None):
                dtypes = dtype_names([keyword.value], scope)
    include = None if reader.include is None else tuple(sorted(reader.include))
    return DbUse(
        tuple(dict.fromkeys(reader.lists)),
        include,
        tuple(sorted(reader.exclude)),
        reader.sure,
        dtypes,
        once,
        call.lineno,
    )


class _Reader:
    """Collects the databases and literal filters of one expression. A filter that is not understood lets everything
    through; two databases with different filters are kept apart by dropping the filters (everything passes)."""

    def __init__(self, scope: Scope, steps: _Steps) -> None:
        self.scope = scope
        self.steps = steps
        self.lists: list[str] = []
        self.include: set[str] | None = None
        self.exclude: set[str] = set()
        self.sure = True

    def read(self, node: ast.expr, depth: int) -> None:
        if depth == 0 or self.steps.spent():
            self.sure = False
        elif isinstance(node, ast.Name):
            if node.id in self.scope:
                self.read(self.scope[node.id], depth - 1)
            else:
                self.lists.append(node.id)
        elif isinstance(node, ast.Attribute):
            self.lists.append(node.attr)
        elif isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp) and len(node.generators) == 1:
            loop = node.generators[0]
            self.read(loop.iter, depth - 1)
            if isinstance(loop.target, ast.Name):
                for condition in loop.ifs:
                    self.condition(condition, loop.target.id)
        elif isinstance(node, ast.Call):
            self.call(node, depth)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            self.union([node.left, node.right], depth)
        elif isinstance(node, ast.List | ast.Tuple):
            self.union([item.value if isinstance(item, ast.Starred) else item for item in node.elts], depth)
        else:
            self.sure = False

    def call(self, node: ast.Call, depth: int) -> None:
        name = dotted(node.func).rpartition(".")[2]
        if name == "filter" and len(node.args) == 2:
            self.read(node.args[1], depth - 1)
            test = node.args[0]
            if isinstance(test, ast.Lambda) and test.args.args:
                self.condition(test.body, test.args.args[0].arg)
        elif name in ("list", "tuple", "sorted", "deepcopy", "copy") and node.args:
            self.read(node.args[0], depth - 1)
        elif name == "chain":
            self.union(node.args, depth)
        else:
            # a function of its own: whatever databases it is given, it may add others
            self.sure = False
            for arg in node.args:
                if isinstance(arg, ast.Name | ast.Attribute):
                    self.read(arg, depth - 1)

    def union(self, parts: list[ast.expr], depth: int) -> None:
        filtered = False
        for part in parts:
            inner = _Reader(self.scope, self.steps)
            inner.read(part, depth - 1)
            self.lists.extend(inner.lists)
            self.sure = self.sure and inner.sure
            filtered = filtered or inner.include is not None or bool(inner.exclude)
        if filtered and len(parts) > 1:
            self.include, self.exclude = None, set()
        elif len(parts) == 1:
            self.include, self.exclude = inner.include, inner.exclude

    def condition(self, node: ast.expr, variable: str) -> None:
        for part in _conjuncts(node):
            if not (isinstance(part, ast.Compare) and len(part.ops) == 1):
                continue
            left, right, op = part.left, part.comparators[0], part.ops[0]
            if dotted(left) != f"{variable}.name":
                left, right = right, left
                if dotted(left) != f"{variable}.name" or not isinstance(op, ast.Eq | ast.NotEq):
                    continue
            names = strings(right, self.scope)
            if names is None or (isinstance(op, ast.In | ast.NotIn) and isinstance(right, ast.Constant)):
                continue  # `op.name in "abc"` asks for a part of a string
            if isinstance(op, ast.Eq | ast.In):
                self.include = set(names) if self.include is None else self.include & set(names)
            elif isinstance(op, ast.NotEq | ast.NotIn):
                self.exclude |= set(names)


def _conjuncts(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        for value in node.values:
            yield from _conjuncts(value)
    else:
        yield node
