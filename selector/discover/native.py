"""Op names out of files that are not Python: YAML of the native functions, and kernels."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterator

_ENTRY = re.compile(r"^- (?:func|name): *([A-Za-z_][\w]*)(?:\.(\w+))?", re.MULTILINE)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w+")
_CALLED = re.compile(r"(\w+)\s*\(\s*(\w+)?")
_TYPES = frozenset({"bool", "char", "double", "float", "int", "long", "short"})
"""words of C++ that are ops as well: a line that declares a variable names no op"""
_LONG = 4_000_000
"""lines times lines that are compared in order"""
_HEADER = re.compile(r"^[A-Za-z_].*\(|^[A-Z_]+\(")

# Kernel files that hold a whole family: the op database's list of the family.
FAMILIES = {
    "UnaryOps": "unary_ufuncs",
    "UnaryOpsKernel": "unary_ufuncs",
    "BinaryOps": "binary_ufuncs",
    "BinaryOpsKernel": "binary_ufuncs",
    "ReduceOps": "reduction_ops",
    "ReduceOpsKernel": "reduction_ops",
    "SpectralOps": "spectral_funcs",
    "TensorShape": "shape_funcs",
}


def yaml_ops(old: bytes | None, new: bytes | None) -> frozenset[str]:
    """Base names of the functions whose entries differ between two versions of the YAML; comments do not count."""
    before, after = _entries(old), _entries(new)
    return frozenset(name for name, _ in {k for k in before.keys() | after.keys() if before.get(k) != after.get(k)})


def yaml_head_changed(old: bytes | None, new: bytes | None) -> bool:
    """Whether something before the first entry differs (nothing there names an op)."""
    return _head(old) != _head(new)


def _entries(data: bytes | None) -> dict[tuple[str, str], str]:
    text = _without_comments(data, "#")
    starts = list(_ENTRY.finditer(text))
    ends = [*(m.start() for m in starts[1:]), *([len(text)] if starts else [])]
    found: dict[tuple[str, str], str] = {}
    for match, end in zip(starts, ends, strict=True):
        key = (match.group(1), match.group(2) or "")
        found[key] = found.get(key, "") + text[match.start() : end]
    return found


def _head(data: bytes | None) -> str:
    text = _without_comments(data, "#")
    first = _ENTRY.search(text)
    return text[: first.start()] if first else text


def code_differs(old: bytes | None, new: bytes | None) -> bool:
    """Whether more than blank lines, indentation and whole-line ``//`` comments differ."""
    return _code_lines(old) != _code_lines(new)


def kernel_words(old: bytes | None, new: bytes | None) -> tuple[frozenset[str], frozenset[str]]:
    """Names of the functions (and of what file-level macros register) in which code differs, and the identifiers of the
    lines that differ: the second says less, since a kernel calls other ops."""
    functions: set[str] = set()
    mentioned: set[str] = set()
    before, after = _text(old).splitlines(), _text(new).splitlines()
    removed, added = _differing([line.strip() for line in before], [line.strip() for line in after])
    for lines, differing in ((after, added), (before, removed)):
        header = ""
        for number, line in enumerate(lines):
            plain = line.strip()
            if _HEADER.match(line):
                header = line
            if number in differing and plain and not plain.startswith("//"):
                functions.update(_called(header))
                mentioned.update(_IDENTIFIER.findall(plain))
    return frozenset(functions), frozenset(mentioned - _TYPES)


def _differing(old: list[str], new: list[str]) -> tuple[set[int], set[int]]:
    """Numbers (from 0) of the lines that only one side has, in their order; of very long stretches without it."""
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    before, after = old[start : len(old) - end], new[start : len(new) - end]
    if len(before) * len(after) > _LONG:
        return _without_order(before, after, start), _without_order(after, before, start)
    removed: set[int] = set()
    added: set[int] = set()
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, before, after).get_opcodes():
        if tag != "equal":
            removed.update(range(start + i1, start + i2))
            added.update(range(start + j1, start + j2))
    return removed, added


def _without_order(lines: list[str], others: list[str], start: int) -> set[int]:
    there = Counter(others)
    found = set()
    for number, line in enumerate(lines):
        if there[line] > 0:
            there[line] -= 1
        else:
            found.add(start + number)
    return found


def functions_with(source: bytes, pattern: re.Pattern[str]) -> frozenset[str]:
    """Names of the functions (and of what file-level macros register) in whose code the pattern is found."""
    found: set[str] = set()
    header = ""
    for line in _text(source).splitlines():
        if _HEADER.match(line):
            header = line
        if header and pattern.search(line) and not line.lstrip().startswith(("//", "#include")):
            found.update(_called(header))
    return frozenset(found)


def changed_lines(old: bytes | None, new: bytes | None) -> tuple[list[str], list[str]]:
    """Lines that only the new side has, and those that only the old side has."""
    before, after = Counter(_text(old).splitlines()), Counter(_text(new).splitlines())
    return list((after - before).elements()), list((before - after).elements())


def _called(header: str) -> Iterator[str]:
    """``Tensor logit(const Tensor& self)`` -> logit; ``TORCH_IMPL_FUNC(logit_out)`` -> logit_out."""
    for match in _CALLED.finditer(header):
        name, argument = match.groups()
        if not name.isupper():
            yield name
            return
        if argument:
            yield argument


def _code_lines(data: bytes | None) -> list[str]:
    lines = (line.strip() for line in _text(data).splitlines())
    return [line for line in lines if line and not line.startswith("//")]


def _without_comments(data: bytes | None, mark: str) -> str:
    lines = (line.rstrip() for line in _text(data).splitlines() if not line.lstrip().startswith(mark))
    return "\n".join(line for line in lines if line)


def _text(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", "replace")
