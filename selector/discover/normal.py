"""Normalised syntax trees: one walk gives a hash and the names that a piece of code refers to.

The hash ignores comments, formatting and docstrings; everything else counts. It is made by our own walk and not by
``ast.dump``, which costs four times as much on a full PyTorch tree.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable

# Never part of the hash: `ctx` follows from the place, `kind` is the u of u"", `type_comment` is a comment.
_IGNORED = frozenset({"ctx", "kind", "type_comment", "type_ignores"})
_FIELDS: dict[type[ast.AST], tuple[str, tuple[str, ...]]] = {
    cls: (cls.__name__, tuple(f for f in cls._fields if f not in _IGNORED))
    for cls in vars(ast).values()
    if isinstance(cls, type) and issubclass(cls, ast.AST)
}
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)
_DEVICE_WORDS = ("cuda", "cpu", "mps", "xpu", "hpu", "meta", "xla", "gpu", "privateuse1")
_DEVICE_ARGUMENTS = frozenset({"device", "device_type", "map_location"})
_DEVICE_CALLS = frozenset({"device", "to"})


class Names:
    """What a piece of code mentions.

    ``loads``: plain names; ``selfs``: attributes of ``self``, ``cls`` and ``super()``; ``attrs``: attributes of
    anything else; ``literals``: strings that name a device (``cuda``, ``cuda:0``). ``inner``: how many test methods the
    classes in it have.
    """

    __slots__ = ("attrs", "inner", "literals", "loads", "selfs")

    def __init__(self) -> None:
        self.loads: set[str] = set()
        self.selfs: set[str] = set()
        self.attrs: set[str] = set()
        self.literals: set[str] = set()
        self.inner = 0


def digest(parts: Iterable[str]) -> str:
    """A 20-digit hash of a sequence of strings; unequal sequences give unequal hashes."""
    return hashlib.blake2b("\x1f".join(parts).encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()


def fingerprint(nodes: Iterable[ast.AST], names: Names | None = None) -> str:
    """The normalised hash of some syntax nodes; what they mention is added to ``names``.

    Raises RecursionError for code that is nested deeper than the interpreter's limit.
    """
    out: list[str] = []
    found = names if names is not None else Names()
    for node in nodes:
        _walk(node, out, found)
    return digest(out)


def body_without_docstring(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module) -> list[ast.stmt]:
    """The statements of a definition; a docstring alone is as good as ``pass``."""
    body = node.body
    first = body[0].value if body and isinstance(body[0], ast.Expr) else None
    if isinstance(first, ast.Constant) and isinstance(first.value, str):
        return body[1:] or [ast.Pass()]
    return body


def tests_in(cls: ast.ClassDef) -> int:
    """How many test methods are written directly in a class."""
    return sum(isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) and n.name.startswith("test") for n in cls.body)


def is_super_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"


def _walk(node: ast.AST, out: list[str], names: Names) -> None:
    cls = node.__class__
    if cls is ast.Name:
        names.loads.add(node.id)  # type: ignore[attr-defined]
        out.append("N" + node.id)  # type: ignore[attr-defined]
        return
    if cls is ast.Constant:
        value = node.value  # type: ignore[attr-defined]
        if value.__class__ is str:
            if len(value) < 16 and value.startswith(_DEVICE_WORDS):
                names.literals.add(value.partition(":")[0])
            out.append("S" + value)
        else:
            out.append("C" + repr(value))
        return
    if cls is ast.Attribute:
        attr, value = node.attr, node.value  # type: ignore[attr-defined]
        if value.__class__ is ast.Name and value.id in ("self", "cls"):
            names.selfs.add(attr)
            out.append(f"A{attr} N{value.id}")
            return
        (names.selfs if is_super_call(value) else names.attrs).add(attr)
        out.append("A" + attr)
        _walk(value, out, names)
        return
    if cls is ast.keyword:
        if node.arg in _DEVICE_ARGUMENTS:  # type: ignore[attr-defined]
            _literal(node.value, names)  # type: ignore[attr-defined]
    elif cls is ast.Call and node.args:  # type: ignore[attr-defined]
        func = node.func  # type: ignore[attr-defined]
        if getattr(func, "attr", getattr(func, "id", "")) in _DEVICE_CALLS:
            _literal(node.args[0], names)  # type: ignore[attr-defined]
    elif cls is ast.ClassDef:
        names.inner += tests_in(node)  # type: ignore[arg-type]
    tag, fields = _FIELDS[cls]
    out.append(tag)
    for field in fields:
        value = getattr(node, field, None)
        if value.__class__ is list:
            if field == "body" and cls in _SCOPES:
                value = body_without_docstring(node)  # type: ignore[arg-type]
            out.append(f"[{len(value)}")
            for item in value:
                if isinstance(item, ast.AST):
                    _walk(item, out, names)
                else:
                    out.append(repr(item))
        elif value is None:
            out.append("-")
        elif isinstance(value, ast.AST):
            _walk(value, out, names)
        else:
            out.append(repr(value))


def _literal(node: ast.AST, names: Names) -> None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 40:
        names.literals.add(node.value.partition(":")[0])
