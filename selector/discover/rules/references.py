"""Tests of the ops whose Python reference or decomposition differs, or uses what differs."""

from __future__ import annotations

import re

from selector.discover.changes import PythonChange
from selector.discover.filekinds import FileKind
from selector.discover.findings import Findings
from selector.discover.opindex import REFS, OpIndex, OpTarget
from selector.discover.reach import Reach
from selector.discover.records import MODULE
from selector.model import Evidence

_REGISTERED = re.compile(
    r"^@register_decomposition\((?P<args>[^@]*?)\)\n(?:@[^\n]*\n(?:[ )][^\n]*\n)*)*def (?P<function>\w+)", re.MULTILINE
)
_CAUSES = 3
"""changed functions that are named for one op and test"""
_ATEN = re.compile(r"\baten\.(\w+)")


def python_ops(change: PythonChange, findings: Findings, index: OpIndex) -> None:
    """A changed function of ``torch/_refs`` or ``torch/_decomp``: its op, and the ops of all that reach it."""
    code = "op-reference" if change.kind is FileKind.REFERENCE else "op-decomposition"
    registered = _registered(change.file.new) | _registered(change.file.old)
    reach = Reach(change.new)
    module = change.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    causes: dict[OpTarget, list[tuple[str, str]]] = {}
    for key in sorted(change.changed):
        if key in ("__all__", MODULE) and len(change.changed) > 1:
            continue
        symbol = change.new.symbols.get(key) or change.old.symbols[key]
        if symbol.kind == "import":
            continue
        seen: set[OpTarget] = set()
        for user in sorted(users_of(reach, key), key=lambda one: (one != key, one)):
            for target in _targets(user, module, registered.get(user, frozenset()), index):
                if target not in seen:  # `add_` of `add`: the same op by a longer way
                    seen.add(target)
                    causes.setdefault(target, []).append((key, user))
        if not seen:
            findings.not_mapped(change.path, f"{key} belongs to no known op", key)
    for target, hit in index.hits(findings.inventory, causes):
        # a list that draws the reference itself runs the edited code; the op alone may not
        runs_it = code != "op-reference" or any(name.startswith(REFS) for name in hit.ops)
        for key, user in sorted(causes[target], key=lambda pair: pair[0] != pair[1])[:_CAUSES]:
            link = "" if user == key else f", which uses {key}"
            text = f"runs {target.word} ({hit.how}){link} of {change.path}"
            fact = Evidence("op", text, change.path, change.place(key), key)
            nearness = 1.0 if user == key else 0.8
            findings.add(hit.test, code, fact, nearness * hit.factor * (1.0 if runs_it else 0.5), hit.ops)


def users_of(reach: Reach, key: str) -> dict[str, frozenset[str]]:
    """The symbol and all of its file that reach it; of one that only the base has, itself."""
    return reach.dependents({key: frozenset()}) or {key: frozenset[str]()}


def _targets(name: str, module: str, registered: frozenset[str], index: OpIndex) -> list[OpTarget]:
    plain = name.partition(".")[0]
    found: dict[str, OpTarget] = {}
    exact = index.reference(f"{module}.{plain}")
    if exact:
        word = plain
        known = index.word(plain)
        found[word] = OpTarget(word, exact | (known.names if known is not None else frozenset()))
    else:
        for candidate in (plain, *sorted(registered)):
            target = index.word(candidate)
            if target is not None and (index.database is not None or not candidate.startswith("_")):
                found[target.word] = target
    return list(found.values())


def _registered(source: bytes | None) -> dict[str, frozenset[str]]:
    """function -> aten names in its ``register_decomposition`` decorator.

    By pattern and not by syntax: the files have thousands of lines, and a miss costs an alias of the function's name.
    """
    text = (source or b"").decode("utf-8", "replace")
    found: dict[str, frozenset[str]] = {}
    for match in _REGISTERED.finditer(text):
        found[match["function"]] = frozenset(_ATEN.findall(match["args"]))
    return found
