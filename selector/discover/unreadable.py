"""Changed files under ``test/`` that the head cannot read as Python: what must run so that a broken file is seen.

The file's tests are not known at the head, but those of the base are, and a file that breaks takes all of them along,
and all of every file that imports it. They are planned, so that a worker imports the file and says what it finds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from selector.discover.cache import InventoryCache
from selector.discover.findings import Findings
from selector.discover.imports import TESTS
from selector.discover.inventory import Inventory, record_of
from selector.discover.records import FileRecord
from selector.model import Evidence, FileChange, Tree

CODE = "unreadable-test-file"
IMPORTER_FACTOR = 0.9
"""below the file's own tests, which say the same with one step less"""
_LINE = re.compile(r"line (\d+): ")


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A changed file that head holds and nobody can read; ``known``: the base's record of it, which stands in."""

    file: FileChange
    problem: str
    known: FileRecord | None

    @property
    def line(self) -> int | None:
        """Where the parser gave up, 1-based, where it says so."""
        found = _LINE.match(self.problem)
        return int(found.group(1)) if found else None


def find(
    base: Tree, files: tuple[FileChange, ...], inventory: Inventory, cache: InventoryCache | None
) -> tuple[Inventory, dict[str, Unreadable]]:
    """The changed test files that head cannot read, by path, and the inventory with the base's records in their place.

    ``inventory`` is that of head.
    """
    found: dict[str, Unreadable] = {}
    ids: dict[str, str] = {}
    for file in files:
        record = inventory.files.get(file.path)
        if not file.path.startswith(TESTS) or file.status == "removed" or record is None or not record.problem:
            continue
        paths = base.paths()
        old_path = file.old_path or file.path
        known = None
        if file.status != "added" and old_path in paths:
            try:
                known = record_of(base.read(old_path), paths[old_path], cache)
            except (KeyError, OSError):
                known = None  # listed, and its content is not there: as little known as a file that does not parse
        if known is not None and not known.problem:
            ids[file.path] = paths[old_path]
        else:
            known = None
        found[file.path] = Unreadable(file, record.problem, known)
    records = {path: one.known for path, one in found.items() if one.known is not None}
    if not records:
        return inventory, found
    stand_in = Inventory({**inventory.files, **records}, {**inventory.ids, **ids})
    return stand_in, found


def reach(one: Unreadable, findings: Findings) -> str:
    """Puts the base's tests of the file in, and the tests of all that import it. Returns why the run is not the whole
    truth about the file: what is new in it cannot be known."""
    file, inventory = one.file, findings.inventory
    broken = f"which cannot be read as Python with this change ({one.problem})"
    own = 0
    for test, _, found in inventory.tests(file.path) if one.known is not None else ():
        fact = Evidence(CODE, f"lies in {file.path}, {broken}", file.path, one.line, f"{test.cls}.{found.name}")
        findings.add(test, CODE, fact)
        own += 1
    importing = 0
    for path in _importers(inventory, file):
        fact = Evidence("parse-error", f"imports {file.path}, {broken}", file.path, one.line)
        for test, _, _ in inventory.tests(path):
            findings.add(test, "helper-imported", fact, IMPORTER_FACTOR)
            importing += 1
    mine = f"{own} of its base's tests" if one.known is not None else "no test of its own, as none is known"
    counted = f"{mine} and {importing} of files that import it are in the selection"
    what = f"it cannot be read as Python ({one.problem})"
    place = Evidence("parse-error", one.problem, file.path, one.line)
    findings.decide(file.path, "unreadable", "unparsable-file", f"{what}: {counted}", place)
    rest = "what is new in it is not known" if one.known is not None else "its tests are not known"
    return f"{what}: {rest}"


def _importers(inventory: Inventory, file: FileChange) -> Iterator[str]:
    """Every test file that imports the file, itself or through others: importing one that is broken breaks them all."""
    seen = {file.path}
    todo = [file.path, *([file.old_path] if file.old_path else [])]
    while todo:
        for path, _, _ in inventory.importers(todo.pop()):
            if path not in seen:
                seen.add(path)
                todo.append(path)
                if path.startswith(TESTS):
                    yield path
