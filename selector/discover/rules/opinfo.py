"""Tests that draw an entry of an op or module database that differs, or that uses a helper that does."""

from __future__ import annotations

from selector.discover.changes import PythonChange
from selector.discover.findings import Findings
from selector.discover.opindex import OpIndex, OpTarget
from selector.discover.reach import Reach
from selector.discover.rules.references import users_of
from selector.model import Evidence

_CAUSES = 3
"""changed entries or helpers that are named for one op and test"""


def opinfo_entries(change: PythonChange, findings: Findings, index: OpIndex) -> None:
    """Entries of op and module databases in the shared test library that differ, or use a helper that does."""
    reach = Reach(change.new)
    causes: dict[OpTarget, list[tuple[str, Evidence]]] = {}
    drawing = [(test, found.modules) for test, _, found in findings.inventory.tests() if found.modules is not None]
    for key in sorted(change.changed | change.soft):
        soft = key in change.soft
        users = {key: frozenset[str]()} if soft else users_of(reach, key)
        for user in sorted(users):
            database, _, label = user.partition("[")
            if not label:
                continue
            name = label.removesuffix("]")
            text = f"{database} entry {name}" + (" (skips or decorators only)" if soft else "")
            text += "" if user == key else f" uses {key}"
            code = "op-info-skips" if soft else "op-info"
            fact = Evidence("op", text, change.path, change.place(user) or change.place(key), user)
            if "module" not in database and "optim" not in database:
                causes.setdefault(_entry_target(name, index), []).append((code, fact))
                continue
            for test, use in drawing:
                if (use.include is None or name in use.include) and name not in use.exclude:
                    findings.add(test, code, fact)
    for target, hit in index.hits(findings.inventory, causes):
        if hit.how.startswith("draws"):
            for code, fact in causes[target][:_CAUSES]:
                findings.add(hit.test, code, fact, hit.factor, hit.ops)


def _entry_target(label: str, index: OpIndex) -> OpTarget:
    """The entry ``name.variant``: a dot may belong to the name itself."""
    if index.database is not None and label not in index.by_name:
        shorter = label.rpartition(".")[0]
        if shorter in index.by_name:
            return index.entry(shorter)
    return index.entry(label)
