"""Code that makes tests when it is imported, as a small program: loops, ``setattr``, ``type``, ``globals()[...]``.

Only what can name a test is kept, in lists that go to JSON and back. ``made`` runs the programs once all files are
known, since one file's function makes another file's classes.

Expressions: ``["s", text]``, ``["n", name]``, ``["a", expression, attribute]``, ``["f", [parts]]`` (joined text),
``["l", [items]]``, ``["d", class]`` (its own attributes, by name; ``D``: with inherited ones),
``["t", name, attributes]`` (a new class), ``["c", callee, [arguments], {by name}]``, ``["?"]``.
Statements: ``["set", line, class, name]``, ``["put", line, name, value]``, ``["let", line, name, value]``,
``["do", line, call]``, ``["ret", line, value]``, ``["for", line, name, over, body]``, ``["is", class, name]`` (a class
that a function defines).
"""

from __future__ import annotations

import ast
from typing import Any

from selector.discover import literals

Node = list[Any]
MODULE_PROGRAM = ""
"""the key of what the module itself does"""
_MAX_STATEMENTS = 300
_DICT_CALLS = frozenset({"dict", "list", "tuple", "sorted", "dir", "vars"})
_UNKNOWN: Node = ["?"]


def of_function(node: ast.FunctionDef | ast.AsyncFunctionDef, *, handing_on: bool = False) -> Node | None:
    """``[parameters, defaults, statements]`` of a function that can make tests; None of any other.

    ``handing_on``: it does too when it returns what another function makes of its arguments.
    """
    if not _makes(node) and not (handing_on and _hands_on(node)):
        return None
    body = _body(node.body)
    arguments = [*node.args.posonlyargs, *node.args.args]
    defaults = {a.arg: _expr(d) for a, d in zip(reversed(arguments), reversed(node.args.defaults), strict=False)}
    keywords = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    defaults |= {a.arg: _expr(d) for a, d in keywords if d is not None}
    return [[a.arg for a in [*arguments, *node.args.kwonlyargs]], defaults, body[:_MAX_STATEMENTS]]


def of_module(body: list[ast.stmt], classes: frozenset[str], made_by: frozenset[str]) -> Node:
    """The statements of a module that may make tests: ``setattr`` on its classes, ``globals()[...]``, and calls that
    are handed a class. ``classes`` are the module's own, ``made_by`` the functions that ``of_function`` gave."""
    found = [one for one in _body(body) if _matters(one, classes, made_by)]
    if not any(_acts(one) for one in found):
        # others may name tests after a constant of this module
        found = [one for one in found if one[0] == "let" and one[2].isupper() and one[3][0] == "s"]
    return [[], {}, found[:_MAX_STATEMENTS]] if found else []


def called(program: Node) -> set[str]:
    """The functions that a program's statements call by a plain name."""
    found: set[str] = set()
    todo = list(program[2])
    while todo:
        one = todo.pop()
        if one[0] == "for":
            todo.extend(one[4])
        elif one[-1][0] == "c":
            found.add(one[-1][1])
    return found


def _hands_on(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    names = {a.arg for a in node.args.args}
    return any(
        isinstance(inner, ast.Call) and any(isinstance(a, ast.Name) and a.id in names for a in inner.args)
        for inner in ast.walk(node)
    )


def _makes(node: ast.AST) -> bool:
    for inner in ast.walk(node):
        if isinstance(inner, ast.ClassDef) and any(_is_test(one) for one in inner.body):
            return True
        if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name) and len(inner.args) == 3:
            if inner.func.id in ("setattr", "type"):
                return True
        elif isinstance(inner, ast.Subscript) and isinstance(inner.ctx, ast.Store) and _is_globals(inner.value):
            return True
    return False


def _is_test(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test")


def _is_globals(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and literals.dotted(node.func) in ("globals", "locals", "vars") and not node.args


def _matters(one: Node, classes: frozenset[str], made_by: frozenset[str]) -> bool:
    kind = one[0]
    if kind == "for":
        one[4] = [inner for inner in one[4] if inner[0] in ("let",) or _matters(inner, classes, made_by)]
        return any(_acts(inner) for inner in one[4])
    if kind in ("set", "put"):
        return True
    if kind not in ("let", "do"):
        return False
    value = one[-1]
    if value[0] == "c":
        handed = [*value[2], *value[3].values()]
        by_class = any(a[0] == "n" or (a[0] == "a" and a[2][:1].isupper()) for a in handed)
        return by_class or bool(value[1] in made_by)
    if value[0] == "l":
        return any(item[0] in ("a", "s") or (item[0] == "n" and item[1] in classes) for item in value[1])
    return bool(value[0] == "s")


def _acts(one: Node) -> bool:
    return one[0] in ("set", "put", "do", "for") or (one[0] == "let" and one[3][0] == "c")


def _body(body: list[ast.stmt]) -> list[Node]:
    out: list[Node] = []
    for node in body:
        out.extend(_statement(node))
    return out


def _statement(node: ast.stmt) -> list[Node]:
    if isinstance(node, ast.If):
        if isinstance(node.test, ast.Compare) and literals.dotted(node.test.left) == "__name__":
            return []
        return [*_body(node.body), *_body(node.orelse)]
    if isinstance(node, ast.For):
        over = _expr(node.iter)
        name = node.target.id if isinstance(node.target, ast.Name) else ""
        if isinstance(node.target, ast.Tuple) and node.target.elts and isinstance(node.target.elts[0], ast.Name):
            name = node.target.elts[0].id  # `for name, value in x.items()`: names are what is asked for
        inner = _body(node.body)
        return [["for", node.lineno, name, over, inner]] if inner else []
    if isinstance(node, ast.With):
        return _body(node.body)
    if isinstance(node, ast.Try):
        parts = [*node.body, *(s for h in node.handlers for s in h.body), *node.orelse, *node.finalbody]
        return _body(parts)
    if isinstance(node, ast.ClassDef):
        return [["is", node.lineno, node.name]]
    if isinstance(node, ast.Return):
        return [["ret", node.lineno, _expr(node.value)]] if node.value is not None else []
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target = node.targets[0]
        if isinstance(target, ast.Name):
            return [["let", node.lineno, target.id, _expr(node.value)]]
        if isinstance(target, ast.Subscript) and _is_globals(target.value):
            return [["put", node.lineno, _expr(target.slice), _expr(node.value)]]
        if isinstance(target, ast.Attribute) and target.attr == "__name__":
            return [["let", node.lineno, literals.dotted(target), _expr(node.value)]]
        return []
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        call = node.value
        if literals.dotted(call.func) == "setattr" and len(call.args) == 3:
            return [["set", node.lineno, _expr(call.args[0]), _expr(call.args[1])]]
        made = _expr(call)
        return [["do", node.lineno, made]] if made[0] == "c" and (made[2] or made[3]) else []
    return []


def _expr(node: ast.expr | None) -> Node:
    if isinstance(node, ast.Constant):
        return ["s", str(node.value)] if isinstance(node.value, str | int) else _UNKNOWN
    if isinstance(node, ast.Name):
        return ["n", node.id]
    if isinstance(node, ast.Attribute):
        if node.attr == "__dict__":
            return ["d", _expr(node.value)]
        return ["a", _expr(node.value), node.attr]
    if isinstance(node, ast.JoinedStr):
        parts = [_expr(p.value if isinstance(p, ast.FormattedValue) else p) for p in node.values]
        return ["f", parts]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return ["f", [_expr(node.left), _expr(node.right)]]
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return ["l", [_expr(item) for item in node.elts[:_MAX_STATEMENTS]]]
    if isinstance(node, ast.Call):
        return _call(node)
    return _UNKNOWN


def _call(node: ast.Call) -> Node:
    name = literals.dotted(node.func)
    if isinstance(node.func, ast.Attribute) and node.func.attr in ("items", "keys", "copy") and not node.args:
        return _expr(node.func.value)
    if name == "type" and len(node.args) == 3:
        return ["t", _expr(node.args[0]), _expr(node.args[2])]
    if name in _DICT_CALLS and node.args:
        inner = _expr(node.args[0])
        return [{"dir": "D", "vars": "d"}[name], inner] if name in ("dir", "vars") else inner
    if name == "str" and len(node.args) == 1:
        return _expr(node.args[0])
    if not name:
        return _UNKNOWN
    by_name = {k.arg: _expr(k.value) for k in node.keywords if k.arg}
    return ["c", name, [_expr(a) for a in node.args], by_name]
