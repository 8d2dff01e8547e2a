"""What lies on an agent's desk: source, sheet, history and logs, read-only, in bounded pieces, without secrets.

Everything that comes from here is data: it is shown between marks, and nothing in it changes what an agent may do.
Each method is a tool; its docstring is what a model is told about it.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field

from selector.agents.scrub import Scrubber, cut
from selector.configs import Capability
from selector.discover import Inventory
from selector.model import Change, FileChange, TestId, Tree

LINES = 120
CHARACTERS = 6_000
FOUND = 40
LOOKED_AT = 3_000
"""tests that one search goes through: a tool must not outlast the seconds of its question"""
LARGEST = 2_000_000
"""bytes of a file that is shown, or that a quote may come from"""
COMPARED = 1_500
"""lines of a side that are compared, from the first that differs on"""
ALL_CHARACTERS = 80_000
"""of everything that the tools of one question tell"""
USED_UP = "(nothing more: the tools of this question have told all that they may)"
BEGIN, END = "<<<data>>>", "<<<end of data>>>"


def data(text: str) -> str:
    """Text of somebody else's between marks that it cannot itself contain."""
    inside = text.replace(BEGIN, "<data>").replace(END, "<end of data>")
    return f"{BEGIN}\n{inside}\n{END}"


@dataclass(frozen=True, slots=True)
class Past:
    """What trusted runs showed of a test: kernels counted on the device, mean seconds a variant, failures of runs;
    ``idle``: every variant passed, and none ran a kernel."""

    kernels: int | None = None
    seconds: float | None = None
    failures: int = 0
    runs: int = 0
    idle: bool = False


@dataclass
class Desk:
    """``logs``: texts by name; ``past``: by test. ``seen``: the paths whose text was told, for the cache."""

    scrub: Scrubber
    tree: Tree | None = None
    inventory: Inventory | None = None
    sheet: Capability | None = None
    change: Change | None = None
    past: Mapping[TestId, Past] = field(default_factory=dict)
    logs: Mapping[str, str] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    _told: int = 0
    _shown: dict[str, list[str] | None] = field(default_factory=dict)

    def lines(self, path: str) -> list[str] | None:
        """A file of the tree as it is shown: without secrets. None where there is none, or none that is text of a size
        that anybody reads."""
        if path not in self._shown:
            self._shown[path] = self._read(path)
        return self._shown[path]

    def _read(self, path: str) -> list[str] | None:
        if self.tree is None or path not in self.tree.paths():
            return None
        try:
            raw = self.tree.read(path)
        except (KeyError, OSError):
            return None
        if b"\0" in raw or len(raw) > LARGEST:
            return None
        return self.scrub(raw.decode("utf-8", "replace")).splitlines()

    def again(self) -> None:
        """The next question: the tools may tell as much again."""
        self._told = 0

    # ------------------------------------------------------------------------------------------------------- the tools

    def read_source(self, path: str, first_line: int = 1, count: int = LINES) -> str:
        """Lines of one file of the upstream tree, numbered from 1. At most 120 lines a call."""
        lines = self.lines(path)
        if lines is None:
            return f"there is no text file {cut(self.scrub(path), 200)!r} in the tree"
        self.seen.add(path)  # what the change touches may have told the model something that its author wants
        start = max(1, first_line)
        shown = lines[start - 1 : start - 1 + max(1, min(count, LINES))]
        told = "\n".join(f"{start + at}: {line[:400]}" for at, line in enumerate(shown))
        return self._tell(data(cut(told, CHARACTERS)) + f"\n({len(lines)} lines in all)")

    def find_tests(self, word: str) -> str:
        """Ids of tests whose file mentions an exact name: a function, class, operator or module. At most 40."""
        if self.inventory is None or not word:
            return "no tests are known"
        found: list[str] = []
        looked_at = 0
        for path in sorted(self.inventory.files):
            if not path.startswith("test/") or word not in self.inventory.files[path].mentions:
                continue
            for test, _, _ in self.inventory.tests(path):
                looked_at += 1
                if word in self.inventory.words(test):
                    found.append(str(test))
                if len(found) >= FOUND or looked_at >= LOOKED_AT:
                    return self._tell(data("\n".join(found)) + "\n(and perhaps more)")
        return self._tell(data("\n".join(found)) if found else f"no test mentions {cut(self.scrub(word), 200)!r}")

    def show_change(self, path: str) -> str:
        """What the change does to one file, as a diff."""
        files = self.change.files if self.change is not None else ()
        file = next((one for one in files if one.path == path), None)
        if file is None:
            return f"the change does not touch {cut(self.scrub(path), 200)!r}"
        self.seen.add(path)
        return self._tell(data(difference(file, self.scrub, CHARACTERS)))

    def show_device(self) -> str:
        """What the device can do: its dtypes, features and limits, and operators that fall back to the CPU."""
        if self.sheet is None:
            return "no sheet is known"
        sheet = self.sheet
        ops = "all" if sheet.ops is None else f"{len(sheet.ops)} of them: " + " ".join(sorted(sheet.ops))
        parts = (
            f"device: {sheet.device} ({sheet.name})",
            f"dtypes: {' '.join(sorted(sheet.dtypes))}",
            f"features: {dict(sheet.features)}",
            f"limits: {dict(sheet.limits)}",
            f"falls back to the CPU for: {' '.join(sorted(sheet.fallback_ops)) or 'nothing'}",
            f"operators: {ops}",
        )
        return self._tell(data(cut(self.scrub("\n".join(parts)), CHARACTERS)))

    def show_history(self, test: str) -> str:
        """What trusted runs showed of a test: kernels it ran on the device, seconds, how often it failed."""
        try:
            past = self.past.get(TestId.parse(test))
        except ValueError:
            return "that is no test id: file::Class::method"
        if past is None:
            return "no trusted run has a result of it"
        kernels = "not counted" if past.kernels is None else f"{past.kernels}"
        seconds = "not known" if past.seconds is None else f"{past.seconds:.2f} a variant"
        idle = "; every variant passed without a kernel" if past.idle else ""
        told = f"kernels: {kernels}; seconds: {seconds}; began to fail {past.failures} times in {past.runs} runs{idle}"
        return self._tell(told)

    def show_log(self, name: str) -> str:
        """The log of one of the failures that the question names."""
        text = self.logs.get(name)
        if text is None:
            return f"there is no log of that name; there are: {', '.join(sorted(self.logs)) or 'none'}"
        return self._tell(data(cut(self.scrub(text), CHARACTERS)))

    def _tell(self, text: str) -> str:
        if self._told + len(text) > ALL_CHARACTERS:
            return USED_UP
        self._told += len(text)
        return text


def difference(file: FileChange, scrub: Scrubber, most: int) -> str:
    """The file's diff with three lines around each change, or what it is instead of text."""
    if file.submodule:
        return f"{file.path}: a submodule moves"
    if file.binary:
        return f"{file.path}: a binary file"
    sides = ((file.old or b"")[:LARGEST], (file.new or b"")[:LARGEST])
    old, new = (scrub(side.decode("utf-8", "replace")).splitlines() for side in sides)
    same = next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    start = max(same - 3, 0)
    # comparing takes the square of the lines at worst, and the change's author chooses them
    old, new = old[start : start + COMPARED], new[start : start + COMPARED]
    names = (f"a/{file.path} (from line {start + 1})", f"b/{file.path}")
    return cut("\n".join(difflib.unified_diff(old, new, *names, lineterm="")), most)
