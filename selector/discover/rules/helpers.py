"""Tests that reach a changed helper: in its file, through other test files, through the shared test library."""

from __future__ import annotations

from selector.discover.changes import PythonChange, is_import, tests_of
from selector.discover.filekinds import FileKind
from selector.discover.findings import Findings
from selector.discover.reach import Reach
from selector.discover.records import MODULE
from selector.discover.spread import Spreader
from selector.model import Evidence

MANY_HITS = 30_000
"""tests reached, counted again for every symbol, after which the rest is followed file by file"""


def helpers(changes: list[PythonChange], findings: Findings, spreader: Spreader, *, batched: bool) -> None:
    """Tests that reach a changed helper: in its file, through other test modules, through the shared test library.

    ``batched``: all changed symbols of a file at once; the evidence then names the file and not the symbol.
    """
    work = 0
    for change in changes:
        tests = {f"{cls}.{name}" for cls, name in tests_of(change.old) | tests_of(change.new)}
        symbols = sorted(key for key in change.changed - tests if "[" not in key)
        while symbols:
            size = len(symbols) if batched or work > MANY_HITS else 1
            work += _helper_group(change, change.path, symbols[:size], findings, spreader)
            symbols = symbols[size:]
        if change.file.status == "renamed" and change.file.old_path:
            # who still imports the file by its old name
            old = sorted(key for key in change.old.symbols if "[" not in key)
            _helper_group(change, change.file.old_path, old, findings, spreader)


def _helper_group(change: PythonChange, path: str, group: list[str], findings: Findings, spreader: Spreader) -> int:
    name = group[0] if len(group) == 1 else None
    label = name if name and name != MODULE else "module-level code" if name == MODULE else f"{len(group)} symbols"
    start = {key: frozenset[str]() for key in group}
    gone = {key: frozenset[str]() for key in group if key not in change.new.symbols}
    if gone:
        # what used it in the base and is still there uses a name that is no more
        users = Reach(change.old).dependents(gone)
        start |= {key: methods for key, methods in users.items() if key in change.new.symbols}
    reached = list(spreader.spread(path, start))
    crowd = max(0.2, min(1.0, 300 / max(1, len(reached))))
    for hit in reached:
        own_file = hit.test.file == path
        code = "testlib" if change.kind is FileKind.TESTLIB else "helper" if own_file else "helper-imported"
        through = "" if hit.through in (name, f"{hit.test.cls}.{hit.test.method}") else f" through {hit.through}"
        fact = Evidence(
            "helper",
            f"reaches {label} of {path}{through}",
            path,
            change.place(name) if name else None,
            name,
        )
        # what the test uses itself tells more than what its helpers use
        findings.add(hit.test, code, fact, crowd if code == "testlib" else 1.0, first=hit.through == name)
    entries = any("[" in key for key in Reach(change.new).dependents({key: frozenset() for key in group}))
    if not (reached or entries or name is None or is_import(change, name)) and change.kind is FileKind.TESTLIB:
        findings.not_mapped(change.path, f"no test was found to reach {label}", name)
    return len(reached)
