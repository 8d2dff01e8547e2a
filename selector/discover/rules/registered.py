"""Tests of the ops that a changed function of torch is registered for: lowerings, meta functions, decompositions."""

from __future__ import annotations

import re

from selector.discover.changes import PythonChange
from selector.discover.findings import Findings
from selector.discover.opindex import OpIndex, OpTarget
from selector.discover.reach import Reach
from selector.discover.records import MODULE
from selector.model import Evidence

_DECORATED = re.compile(
    r"^@(?P<how>[\w.]*(?:register|impl)\w*)\((?P<args>[^@]*?)\)\n(?:@[^\n]*\n(?:[ )][^\n]*\n)*)*def (?P<name>\w+)",
    re.MULTILINE,
)
_CALLED = re.compile(r"^(?P<how>\w*(?:register|make)_\w+)\((?P<args>(?:[^()]|\([^()]*\))*)\)", re.MULTILINE)
_OP = re.compile(r"\b(?:aten|prims|ops\.aten|torch\.ops\.aten)\.(\w+)|[\"']aten::(\w+)")
_HOW = {"lowering": "lowering", "meta": "meta function", "decomposition": "decomposition", "pointwise": "lowering"}
_CAUSES = 3


def registered(change: PythonChange, findings: Findings, index: OpIndex) -> set[str]:
    """Adds the tests; returns the changed names that led to one."""
    table = _table(change.file.new) | _table(change.file.old)
    if not table and MODULE not in change.changed:
        return set()
    reach = Reach(change.new)
    causes: dict[OpTarget, list[tuple[str, str, str]]] = {}
    for key in sorted(change.changed):
        users = reach.dependents({key: frozenset()}) or {key: frozenset[str]()}
        for user in sorted(users, key=lambda one: (one != key, one)):
            for op, how in sorted(table.get(user, ())):
                target = index.word(op)
                if target is not None:
                    causes.setdefault(target, []).append((key, user, how))
    if MODULE in change.changed:
        for op, how, _ in sorted(_calls(change.file.old) ^ _calls(change.file.new)):
            target = index.word(op)
            if target is not None:
                causes.setdefault(target, []).append((MODULE, MODULE, how))
    mapped: set[str] = set()
    for target, hit in index.hits(findings.inventory, causes):
        for key, user, how in causes[target][:_CAUSES]:
            name = user if user != MODULE else "a call"
            link = "" if user == key else f", which uses {key}"
            text = f"runs {target.word} ({hit.how}): {name} of {change.path} is its {how}{link}"
            fact = Evidence("op", text, change.path, change.place(key), key)
            findings.add(hit.test, "op-registered", fact, hit.factor * (1.0 if user == key else 0.8), hit.ops)
            mapped.add(key.partition(".")[0])
    return mapped


def _table(source: bytes | None) -> dict[str, frozenset[tuple[str, str]]]:
    """function -> (op, what it is of the op) in its decorators. By pattern: the files have thousands of lines."""
    found: dict[str, frozenset[tuple[str, str]]] = {}
    for match in _DECORATED.finditer((source or b"").decode("utf-8", "replace")):
        ops = frozenset((one, _how(match["how"])) for one in _ops(match["args"]))
        if ops:
            found[match["name"]] = found.get(match["name"], frozenset()) | ops
    return found


def _calls(source: bytes | None) -> frozenset[tuple[str, str, str]]:
    """(op, what, arguments) of module-level calls such as ``register_pointwise(aten.abs, ...)``."""
    found: set[tuple[str, str, str]] = set()
    for match in _CALLED.finditer((source or b"").decode("utf-8", "replace")):
        arguments = " ".join(match["args"].split())
        found.update((op, _how(match["how"]), arguments) for op in _ops(arguments))
    return frozenset(found)


def _ops(text: str) -> list[str]:
    return [first or second for first, second in _OP.findall(text)]


def _how(name: str) -> str:
    for word, how in _HOW.items():
        if word in name:
            return how
    return "registration"
