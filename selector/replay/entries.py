"""Faults in entries of upstream's op databases: a flag that says the opposite."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from selector.replay.model import Edit
from selector.replay.mutate import Place, Source

FLAGS = ("supports_", "promotes_", "check_", "is_factory", "handles_", "lhs_", "rhs_")
"""Beginnings of keywords that tests read while they run; others decide which variants there are."""


def places(data: bytes) -> list[Place]:
    """A place for each literal flag of each entry that a file's module level makes. SyntaxError."""
    source = Source(data)
    found = []
    for call in _calls(source.tree):
        for keyword in call.keywords:
            value = keyword.value
            if keyword.arg is None or not keyword.arg.startswith(FLAGS):
                continue
            if isinstance(value, ast.Constant) and isinstance(value.value, bool):
                edit = Edit(*source.span(value), str(not value.value))
                found.append(Place(keyword.arg, entry_name(call), value.lineno, edit))
    return found


def _calls(tree: ast.Module) -> Iterator[ast.Call]:
    for statement in tree.body:
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            continue
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and entry_name(node):
                yield node


def entry_name(call: ast.Call) -> str:
    """``Class:name`` or ``Class:name.variant`` of a call that makes an entry; empty for any other call."""
    made = call.func.id if isinstance(call.func, ast.Name) else ""
    if not made.endswith("Info") or not call.args:
        return ""
    first = call.args[0]
    if not (isinstance(first, ast.Constant) and isinstance(first.value, str)):
        return ""
    for keyword in call.keywords:
        value = keyword.value
        named = keyword.arg == "variant_test_name" and isinstance(value, ast.Constant) and isinstance(value.value, str)
        if named and isinstance(value, ast.Constant) and value.value:
            return f"{made}:{first.value}.{value.value!s}"
    return f"{made}:{first.value}"
