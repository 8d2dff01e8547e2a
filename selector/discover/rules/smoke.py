"""The smoke set: what runs where a change holds nothing that a test could reach."""

from __future__ import annotations

from collections.abc import Sequence

from selector.discover.findings import Findings
from selector.discover.inventory import Inventory
from selector.model import Evidence, TestId

SIZE = 10


def smoke(findings: Findings, named: Sequence[TestId], why: str) -> int:
    """Adds the smoke set (``named``: the configured one, else one made of the tree); returns its size."""
    chosen = [test for test in named if findings.inventory.find(test) is not None] or pick(findings.inventory)
    for test in chosen:
        findings.add(test, "smoke", Evidence("smoke", f"in the smoke set: {why}"))
    return len(chosen)


def pick(inventory: Inventory, size: int = SIZE) -> list[TestId]:
    """A plain device-generic test of each of the files with the most of them: the shortest one that draws no op list.

    The same tree gives the same tests.
    """
    by_file: dict[str, list[tuple[int, TestId]]] = {}
    for path in sorted(inventory.files):
        for known in inventory.known(path).values():
            generic = any(made.only_for is None and made.except_for is None for made in known.cls.instantiated)
            if known.how != "written" or not generic or "device" not in known.method.args:
                continue
            plain = not known.method.decorators and known.method.args == ("device",)
            if plain:
                symbol = inventory.files[path].symbols[known.origin.key]
                by_file.setdefault(path, []).append((symbol.end - symbol.line, known.id))
    order = sorted(by_file, key=lambda path: (-len(by_file[path]), path))
    return [min(by_file[path])[1] for path in order[:size]]
