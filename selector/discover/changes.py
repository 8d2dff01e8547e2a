"""Both sides of a changed Python file, compared symbol by symbol."""

from __future__ import annotations

from dataclasses import dataclass

from selector.discover.filekinds import FileKind
from selector.discover.reach import changed_symbols
from selector.discover.records import FileRecord
from selector.model import FileChange


@dataclass(frozen=True, slots=True)
class PythonChange:
    """Both sides of a Python file and the keys of the symbols that differ; ``soft``: entries of an op database of
    which only skips or decorators differ."""

    file: FileChange
    kind: FileKind
    old: FileRecord
    new: FileRecord
    changed: frozenset[str]
    soft: frozenset[str]

    @property
    def path(self) -> str:
        return self.file.path

    @property
    def problem(self) -> str:
        return self.new.problem or self.old.problem

    @property
    def cosmetic(self) -> bool:
        """Only comments, formatting or docstrings differ (a pure rename is not cosmetic)."""
        return not (self.problem or self.changed or self.soft or self.file.status != "modified")

    def place(self, symbol: str) -> int | None:
        found = self.new.symbols.get(symbol)
        return found.line if found is not None and found.line else None


def compare(file: FileChange, kind: FileKind, old: FileRecord, new: FileRecord) -> PythonChange:
    """Compares the two sides by the normalised syntax of their symbols."""
    soft = frozenset(key for key, s in new.symbols.items() if key in old.symbols and s.soft != old.symbols[key].soft)
    changed = changed_symbols(old.symbols, new.symbols)
    return PythonChange(file, kind, old, new, changed, soft - changed)


def is_import(change: PythonChange, key: str) -> bool:
    symbol = change.new.symbols.get(key) or change.old.symbols.get(key)
    return symbol is not None and symbol.kind == "import"


def tests_of(record: FileRecord) -> dict[tuple[str, str], str]:
    """(class, method) -> hash of every test that is written in classes of the module."""
    return {
        (cls.name, test.name): record.symbols[f"{cls.name}.{test.name}"].own
        for cls in record.classes.values()
        for test in cls.tests
        if not cls.nested and f"{cls.name}.{test.name}" in record.symbols
    }
