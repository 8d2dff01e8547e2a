"""Which op a C++ function is for, by what registers it: the YAML of native functions and derivatives, ``m.impl``,
``REGISTER_DISPATCH``."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

from selector.model import Tree

MANY_OPS = 40
NATIVE_FUNCTIONS = "aten/src/ATen/native/native_functions.yaml"
DERIVATIVES = "tools/autograd/derivatives.yaml"
_ENTRY = re.compile(r"^- (?:func|name): *([A-Za-z_]\w*)", re.MULTILINE)
_DISPATCH = re.compile(r"^ +[A-Z][\w, ]*: *([a-z_][\w:]*) *$", re.MULTILINE)
_CALLED = re.compile(r"\b([a-z_]\w{3,})\s*\(")
_IMPL = re.compile(
    r"\bm\.impl(?:_UNBOXED)?\(\s*(?:TORCH_SELECTIVE_NAME\()?\"(?:\w+::)?(\w+)[\w.]*\"\)?\s*,([^;]*?)\)\s*;"
)
_STUB = re.compile(r"\b\w*REGISTER\w*DISPATCH\(\s*(\w+)\s*,\s*&?\s*([\w:]+)")
_INCLUDED = re.compile(r"#include <ATen/ops/(\w+?)(?:_native|_meta)\.h>")


class Registrations:
    """C++ function -> ops, for one tree. The YAML files are read when first asked for."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._tables: dict[str, dict[str, frozenset[str]]] = {}

    def ops(self, function: str) -> frozenset[str]:
        """Ops that the YAML of native functions dispatches to the function (``softmax_cpu_out`` -> ``_softmax``)."""
        return self._table(NATIVE_FUNCTIONS, _DISPATCH).get(function, frozenset())

    def derivatives(self, function: str) -> frozenset[str]:
        """Ops whose derivative calls the function (``norm_backward`` -> ``norm``, ``dist``)."""
        return self._table(DERIVATIVES, _CALLED).get(function, frozenset())

    def _table(self, path: str, named: re.Pattern[str]) -> dict[str, frozenset[str]]:
        if path not in self._tables:
            found: dict[str, set[str]] = defaultdict(set)
            for op, body in _entries(self._text(path)):
                for name in named.findall(body):
                    if name != op:
                        found[name.rpartition("::")[2]].add(op)
            # what many entries name (`not_implemented`) says nothing about one
            self._tables[path] = {name: frozenset(ops) for name, ops in found.items() if len(ops) <= MANY_OPS}
        return self._tables[path]

    def _text(self, path: str) -> str:
        try:
            return self.tree.read(path).decode("utf-8", "replace")
        except (KeyError, OSError):
            return ""


def registered_in(source: bytes | None) -> dict[str, frozenset[str]]:
    """function -> ops that the file itself registers it for."""
    text = (source or b"").decode("utf-8", "replace")
    found: dict[str, set[str]] = defaultdict(set)
    for op, value in _IMPL.findall(text):
        for name in re.findall(r"[A-Za-z_]\w+", value):
            found[name].add(op)
    for stub, kernel in _STUB.findall(text):
        found[kernel.rpartition("::")[2]].add(stub)
    return {name: frozenset(ops) for name, ops in found.items()}


def implemented_in(source: bytes | None) -> frozenset[str]:
    """Ops that a file implements, by the headers of their declarations that it includes."""
    return frozenset(_INCLUDED.findall((source or b"").decode("utf-8", "replace")))


def _entries(text: str) -> Iterable[tuple[str, str]]:
    starts = list(_ENTRY.finditer(text))
    ends = [*(m.start() for m in starts[1:]), *([len(text)] if starts else [])]
    for match, end in zip(starts, ends, strict=True):
        yield match.group(1), text[match.end() : end]
