"""Faults in Python source: small, syntactically valid, one line each. Works on bytes, imports nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from selector.replay.model import Edit

_COMPARISONS: dict[type[ast.cmpop], tuple[bytes, bytes]] = {
    ast.Lt: (b"<", b"<="),
    ast.LtE: (b"<=", b"<"),
    ast.Gt: (b">", b">="),
    ast.GtE: (b">=", b">"),
    ast.Eq: (b"==", b"!="),
    ast.NotEq: (b"!=", b"=="),
}
_ARITHMETIC: dict[type[ast.operator], tuple[bytes, bytes]] = {
    ast.Add: (b"+", b"-"),
    ast.Sub: (b"-", b"+"),
    ast.Mult: (b"*", b"/"),
    ast.Div: (b"/", b"*"),
    ast.FloorDiv: (b"//", b"*"),
}
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_SKIPPED = (ast.JoinedStr, ast.Raise, ast.Assert, ast.Import, ast.ImportFrom)
"""Not changed: positions inside of f-strings are not to be had, and messages of errors are nobody's business."""


@dataclass(frozen=True, slots=True)
class Place:
    """A possible fault: ``symbol`` is the function's qualified name as code objects spell it."""

    kind: str
    symbol: str
    line: int
    edit: Edit


class Source:
    """A file's bytes with the offsets of its lines."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.tree = ast.parse(data)
        self._lines = [0]
        for line in data.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def span(self, node: ast.expr | ast.stmt | ast.keyword) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._lines[node.lineno - 1] + node.col_offset, self._lines[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: ast.expr | ast.stmt | ast.keyword) -> str:
        start, end = self.span(node)
        return self.data[start:end].decode()


def places(data: bytes) -> list[Place]:
    """Every fault that can be put into the functions of a file, in the order of the source. SyntaxError."""
    source = Source(data)
    found: list[Place] = []
    for symbol, function in functions(source.tree):
        for statement in _statements(function):
            for kind, edit in _of_statement(source, statement):
                if _keeps_shape(data, edit):
                    found.append(Place(kind, symbol, statement.lineno, edit))
    return found


def functions(tree: ast.Module) -> Iterator[tuple[str, _Function]]:
    """Each function with its qualified name (``Class.method``, ``outer.<locals>.inner``), stubs left out."""
    todo: list[tuple[str, ast.AST]] = [("", tree)]
    while todo:
        prefix, node = todo.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, _Function):
                name = f"{prefix}{child.name}"
                if not any("overload" in ast.dump(d) for d in child.decorator_list):
                    yield name, child
                todo.append((f"{name}.<locals>.", child))
            elif isinstance(child, ast.ClassDef):
                todo.append((f"{prefix}{child.name}.", child))
            elif isinstance(child, ast.stmt):
                todo.append((prefix, child))


def _statements(function: _Function) -> Iterator[ast.stmt]:
    """The function's own statements at any depth, without those of functions and classes inside of it."""
    body = function.body
    docstring = body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
    todo: list[ast.stmt] = list(body[1:] if docstring else body)
    while todo:
        statement = todo.pop(0)
        if isinstance(statement, (*_SKIPPED, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        yield statement
        todo += [child for child in ast.iter_child_nodes(statement) if isinstance(child, ast.stmt)]
        for handler in getattr(statement, "handlers", ()):
            todo += handler.body


def _own(statement: ast.stmt) -> Iterator[ast.expr | ast.keyword]:
    """The expressions of a statement, without those of statements inside of it, annotations and lambdas."""
    todo: list[ast.AST] = [
        child
        for name, value in ast.iter_fields(statement)
        if name != "annotation"
        for child in (value if isinstance(value, list) else [value])
        if isinstance(child, ast.expr)
    ]
    while todo:
        node = todo.pop(0)
        if isinstance(node, (ast.JoinedStr, ast.Lambda)):
            continue
        if isinstance(node, (ast.expr, ast.keyword)):
            yield node
        todo += list(ast.iter_child_nodes(node))


def _of_statement(source: Source, statement: ast.stmt) -> Iterator[tuple[str, Edit]]:
    called = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
    if called or isinstance(statement, ast.AugAssign):
        yield "statement-drop", Edit(*source.span(statement), "pass")
    if isinstance(statement, ast.Return) and statement.value is not None and not _is_none(statement.value):
        yield "return-none", Edit(*source.span(statement), "return None")
    if isinstance(statement, ast.If):
        yield "condition-negate", Edit(*source.span(statement.test), f"not ({source.text(statement.test)})")
    for node in _own(statement):
        if isinstance(node, ast.expr):
            yield from _of_expression(source, node)


def _of_expression(source: Source, node: ast.expr) -> Iterator[tuple[str, Edit]]:
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARISONS:
            yield "comparison-shift", _between(source, left, right, *_COMPARISONS[type(op)])
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            if not (_is_text(left) or _is_text(right)):
                yield "arithmetic-swap", _between(source, left, right, *_ARITHMETIC[type(op)])
        case ast.BoolOp(op=op, values=[left, right]):
            words = (b"and", b"or") if isinstance(op, ast.And) else (b"or", b"and")
            yield "boolean-swap", _between(source, left, right, *words)
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand) if not isinstance(operand, ast.Constant):
            yield "unary-drop", Edit(*source.span(node), f"({source.text(operand)})")
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            yield "constant-shift", Edit(*source.span(node), repr(value + 1))
        case ast.IfExp(test=test):
            yield "condition-negate", Edit(*source.span(test), f"not ({source.text(test)})")
        case ast.Call():
            yield from _of_call(source, node)


def _of_call(source: Source, call: ast.Call) -> Iterator[tuple[str, Edit]]:
    plain = [arg for arg in call.args if not isinstance(arg, ast.Starred)]
    if len(plain) >= 2 and plain == call.args and source.text(plain[0]) != source.text(plain[1]):
        first, second = plain[0], plain[1]
        between = source.data[source.span(first)[1] : source.span(second)[0]].decode()
        text = f"{source.text(second)}{between}{source.text(first)}"
        yield "argument-swap", Edit(source.span(first)[0], source.span(second)[1], text)
    last: ast.expr | ast.keyword | None = call.args[-1] if call.args else None
    for keyword in call.keywords:
        if keyword.arg is not None and last is not None:
            yield "argument-drop", Edit(source.span(last)[1], source.span(keyword)[1], "")
        last = keyword


def _between(source: Source, left: ast.expr, right: ast.expr, old: bytes, new: bytes) -> Edit:
    start, end = source.span(left)[1], source.span(right)[0]
    return Edit(start, end, source.data[start:end].replace(old, new, 1).decode())


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)))


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _keeps_shape(data: bytes, edit: Edit) -> bool:
    """Line numbers must stay what they are: functions are found by them."""
    old = data[edit.start : edit.end]
    return old.count(b"\n") == edit.text.count("\n") == 0 and old != edit.text.encode()
