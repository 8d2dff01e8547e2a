"""Tests and ops that a change's title and text name. Text can add tests, never take one away."""

from __future__ import annotations

import re

from selector.discover.findings import Findings
from selector.discover.opindex import OpIndex, OpTarget
from selector.model import Change, Evidence, TestId

_WORD = re.compile(r"[A-Za-z_][\w.]*")
_CODE = re.compile(r"`([\w.]+)`|\b((?:torch|aten|F)(?:\.|::)[\w.]+)")
_TEST = re.compile(r"\b(?:(?P<file>test/[\w/]+\.py)(?:::(?P<cls>\w+))?(?:::)?)?(?P<method>\btest_\w+)?")
_TITLE, _BODY, _NAMES = 500, 8_000, 20
"""characters that are read, and names that are followed"""
# fmt: off
_ENGLISH = frozenset((
    "add", "all", "any", "at", "cat", "compile", "copy", "cross", "data", "device", "diff", "dist", "div", "dot",
    "dtype",
    "equal", "exp", "fill", "flip", "floor", "full", "gather", "grad", "index", "item", "load", "log", "max", "mean",
    "median", "min", "mode", "module", "mul", "neg", "new", "norm", "not", "pad", "pin", "pow", "prod", "range", "real",
    "repeat", "resize", "round", "save", "scatter", "select", "set", "sign", "size", "sort", "split", "stack", "std",
    "sub", "sum", "take", "tensor", "test", "tile", "trace", "type", "unique", "values", "var", "view", "where", "zero",
))
# fmt: on


def text(change: Change, findings: Findings, index: OpIndex) -> None:
    """Ops of the title and, where they are written as code, of the text; tests that either names."""
    title, body = change.title[:_TITLE], change.body[:_BODY]
    if index.database is not None:
        named = _in_title(title, index)
        for target, word in _as_code(body, index).items():
            named.setdefault(target, (word, "text"))
        for target, hit in index.hits(findings.inventory, dict(list(named.items())[:_NAMES])):
            word, where = named[target]
            fact = Evidence("title", f"the {where} names {word}, which the test runs ({hit.how})")
            findings.add(hit.test, "op-title", fact, hit.factor * (1.0 if where == "title" else 0.7), hit.ops)
    for where, said in (("title", title), ("text", body)):
        _tests(where, said, findings)


def _in_title(title: str, index: OpIndex) -> dict[OpTarget, tuple[str, str]]:
    """English words that are also ops count only when written as code."""
    quoted = set(re.findall(r"`([\w.]+)`", title))
    named: dict[OpTarget, tuple[str, str]] = {}
    for word in dict.fromkeys(_WORD.findall(title)):
        plain = word.strip(".").rpartition(".")[2]
        as_code = word in quoted or "." in word.strip(".") or "_" in plain
        if len(plain) < 3 or (plain.lower() in _ENGLISH and not as_code):
            continue
        target = index.word(plain)
        if target is not None and target.word == plain:
            named[target] = (plain, "title")
    return named


def _as_code(body: str, index: OpIndex) -> dict[OpTarget, str]:
    named: dict[OpTarget, str] = {}
    for quoted, dotted in _CODE.findall(body):
        plain = (quoted or dotted).replace("::", ".").strip(".").rpartition(".")[2]
        target = index.word(plain) if len(plain) > 2 else None
        if target is not None and target.word == plain:
            named[target] = plain
    return named


def _tests(where: str, said: str, findings: Findings) -> None:
    """``test/test_x.py``, ``test/test_x.py::TestX::test_a``, ``test_a``: a name of many tests says little of each."""
    wanted: dict[tuple[str, str], None] = {}
    for match in _TEST.finditer(said):
        if match["file"] or match["method"]:
            wanted[(match["file"] or "", match["method"] or "")] = None
    by_name: dict[str, list[TestId]] = {}
    names = {method for path, method in list(wanted)[:_NAMES] if method and not path}
    if names:
        for test, _, found in findings.inventory.tests():
            if found.name in names:
                by_name.setdefault(found.name, []).append(test)
    for path, method in list(wanted)[:_NAMES]:
        if path:
            tests = [test for test in findings.inventory.known(path) if not method or test.method == method]
        else:
            tests = by_name.get(method, [])
        label = "::".join(filter(None, [path, method]))
        for test in tests:
            fact = Evidence("title", f"the {where} names {label}")
            findings.add(test, "test-named", fact, min(1.0, 20 / len(tests)))
