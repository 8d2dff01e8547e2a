"""Faults in native code, which nothing here can build: the C++ function of an operator is edited for the selector to
see, and the emulated device's kernel of that operator goes wrong for the tests to see.

Which function is an operator's comes from ``native_functions.yaml`` and from ``REGISTER_DISPATCH``, by text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from selector.configs.capability import base_name
from selector.model import Tree
from selector.replay.model import NATIVE_KINDS, Edit, Fault

YAML = "aten/src/ATen/native/native_functions.yaml"
FOLDER = "aten/src/ATen/native/"
STATEMENT = " int64_t replayed = 1; (void)replayed;"
_FUNC = re.compile(r"^- func: (\w+)(?:\.\w+)?\(")
_CPU = re.compile(r"^\s+([\w, ]*\bCPU\b[\w, ]*|CompositeExplicitAutograd): (\w+)\s*$")
_STUB = re.compile(r"\b(\w+_stub)\s*\(")
_REGISTERED = re.compile(r"REGISTER_\w*DISPATCH\w*\(\s*(\w+_stub)\s*,\s*&?(\w+)")


@dataclass(frozen=True, slots=True)
class Site:
    """Where the body of an operator's function begins: ``at`` is a byte offset. ``function``: its name."""

    op: str
    path: str
    function: str
    at: int
    line: int


def kernels(text: str) -> dict[str, tuple[str, ...]]:
    """Base name of each operator -> the functions that serve it on the CPU, from ``native_functions.yaml``."""
    found: dict[str, dict[str, None]] = {}
    op = ""
    for line in text.splitlines():
        if match := _FUNC.match(line):
            op = base_name(match[1])
        elif op and (match := _CPU.match(line)):
            found.setdefault(op, {})[match[2]] = None
    return {op: tuple(functions) for op, functions in found.items()}


def sites(tree: Tree) -> list[Site]:
    """The functions of operators in ATen's CPU sources: those the YAML names, and the kernels behind their stubs."""
    sources = {path: tree.read(path).decode("utf-8", "replace") for path in sorted(tree.paths()) if _counts(path)}
    registered: dict[str, tuple[str, str]] = {}
    for path, text in sources.items():
        for stub, function in _REGISTERED.findall(text):
            registered.setdefault(stub, (path, function))
    bodies = {path: _bodies(text) for path, text in sources.items()}
    by_name: dict[str, tuple[str, int]] = {}
    for path, named in bodies.items():
        for name, at in named.items():
            by_name.setdefault(name, (path, at))
    found = []
    for op, functions in kernels(tree.read(YAML).decode()).items():
        for function in functions:
            place = by_name.get(function)
            if place is None:
                continue
            path, at = place
            found.append(_site(op, path, function, at, sources[path]))
            stub = _STUB.search(sources[path], at, _end(sources[path], at))
            where = registered.get(stub[1]) if stub else None
            if where and where[1] in bodies[where[0]]:
                found.append(_site(op, where[0], where[1], bodies[where[0]][where[1]], sources[where[0]]))
    return found


def faults(sites: Sequence[Site], kind_of: Mapping[str, str]) -> list[Fault]:
    """A fault a site. ``kind_of``: how an operator goes wrong, by its name; others get none."""
    return [
        Fault(
            kind_of[site.op], "native", site.path, site.function, site.line, Edit(site.at, site.at, STATEMENT), site.op
        )
        for site in sites
        if kind_of.get(site.op) in NATIVE_KINDS
    ]


def _counts(path: str) -> bool:
    inside = path.removeprefix(FOLDER)
    return inside != path and inside.endswith(".cpp") and (inside.count("/") == 0 or inside.startswith("cpu/"))


def _site(op: str, path: str, function: str, at: int, text: str) -> Site:
    return Site(op, path, function, len(text[:at].encode()), text.count("\n", 0, at) + 1)


_BODY = re.compile(
    r"^(?=[^\s#/}]).*?\b(?:TORCH_IMPL_FUNC\s*\(\s*(\w+)\s*\)|(\w+))\s*\([^;{}]*\)\s*(?:const\s*)?\{",
    re.MULTILINE,
)


def _bodies(text: str) -> dict[str, int]:
    """Name of each function that begins at the margin -> offset behind its opening brace; the first of a name."""
    found: dict[str, int] = {}
    for match in _BODY.finditer(text):
        name = match[1] or match[2]
        found.setdefault(name, match.end())
    return found


def _end(text: str, at: int) -> int:
    """Where the function ends: a closing brace at the margin."""
    end = text.find("\n}", at)
    return len(text) if end < 0 else end
