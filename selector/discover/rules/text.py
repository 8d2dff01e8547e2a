"""Tests of the ops that a change's title names."""

from __future__ import annotations

import re

from selector.discover.findings import Findings
from selector.discover.opindex import OpIndex, OpTarget
from selector.model import Change, Evidence

_WORD = re.compile(r"[A-Za-z_][\w.]*")
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


def title(change: Change, findings: Findings, index: OpIndex) -> None:
    """Ops named in the title. English words that are also ops count only when written as code."""
    if index.database is None:
        return
    text = change.title[:500]
    quoted = set(re.findall(r"`([\w.]+)`", text))
    named: dict[OpTarget, str] = {}
    for word in dict.fromkeys(_WORD.findall(text)):
        plain = word.strip(".").rpartition(".")[2]
        as_code = word in quoted or "." in word.strip(".") or "_" in plain
        if len(plain) < 3 or (plain.lower() in _ENGLISH and not as_code):
            continue
        target = index.word(plain)
        if target is not None and target.word == plain:
            named[target] = plain
    for target, hit in index.hits(findings.inventory, named):
        fact = Evidence("title", f"the title names {named[target]}, which the test runs ({hit.how})")
        findings.add(hit.test, "op-title", fact, hit.factor, hit.ops)
