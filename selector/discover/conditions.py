"""The condition of a skip (``not TEST_CUDA or IS_WINDOWS``), kept as text and worked out later without running it."""

from __future__ import annotations

import ast
from collections.abc import Callable

from selector.discover.literals import Scope, dotted
from selector.discover.records import UNKNOWN

SKIPS = frozenset({"skipIf", "skipUnless"})
_LONGEST = 300
_DEPTH = 4
_STEPS = 200
"""parts that reading one condition may visit: names that stand for conditions on names grow without end"""
Known = Callable[[str], bool | None]
"""what a dotted name (``common_utils.TEST_CUDA``) or a call without arguments (``torch.cuda.is_available()``) is; None:
not known"""


def as_text(node: ast.expr, scope: Scope) -> str:
    """A condition with the module's own names replaced by what they stand for; ``?`` where nothing of it can be read.

    A part that is no ``not``, ``and`` or ``or``, and no name or call without arguments, is ``...`` in it: only running
    it would tell.
    """
    plain = _plain(node, scope, _DEPTH, _Steps(_STEPS))
    text = ast.unparse(plain)
    return UNKNOWN if _opaque(plain) or len(text) > _LONGEST else text


class _Steps:
    def __init__(self, left: int) -> None:
        self.left = left


def _plain(node: ast.expr, scope: Scope, depth: int, steps: _Steps) -> ast.expr:
    steps.left -= 1
    if steps.left < 0:
        return ast.Constant(...)
    if isinstance(node, ast.BoolOp):
        return ast.BoolOp(node.op, [_plain(value, scope, depth, steps) for value in node.values])
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = _plain(node.operand, scope, depth, steps)
        return inner if _opaque(inner) else ast.UnaryOp(node.op, inner)
    if isinstance(node, ast.Name) and node.id in scope and depth:
        inside = _plain(scope[node.id], scope, depth - 1, steps)
        return node if _opaque(inside) else inside
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        return node
    called = node.func if isinstance(node, ast.Call) and not node.args and not node.keywords else node
    return node if dotted(called) else ast.Constant(...)


def _opaque(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is Ellipsis


def truth(text: str, known: Known) -> bool | None:
    """What a condition is, by three-valued logic: one known part can decide it. None: it is not known."""
    try:
        return _truth(ast.parse(text, mode="eval").body, known)
    except SyntaxError:  # UNKNOWN, or a text that is no condition
        return None


def _truth(node: ast.expr, known: Known) -> bool | None:
    if isinstance(node, ast.BoolOp):
        parts = [_truth(value, known) for value in node.values]
        decides = isinstance(node.op, ast.Or)
        return decides if decides in parts else None if None in parts else not decides
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = _truth(node.operand, known)
        return None if inner is None else not inner
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, bool) else None
    if isinstance(node, ast.Call):
        return known(f"{dotted(node.func)}()") if not node.args and not node.keywords else None
    name = dotted(node)
    return known(name) if name else None
