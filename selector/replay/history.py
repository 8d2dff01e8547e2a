"""The second yardstick: real commits that edit sources and tests. Of a commit the selector is shown the sources alone;
the tests that its author edited with them are what it should have selected."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from selector.discover.filekinds import FileKind, kind_of
from selector.model import Change, FileChange, TestId, Tree
from selector.replay.statistics import Rate

MOST_FILES = 30
"""Commits of more files are sweeps (a formatter, a rename): what tests they edit says nothing about what they break."""

PYTHON = ("torch/", "functorch/")


@dataclass(frozen=True, slots=True)
class Split:
    """A commit's files: ``shown`` to the selector, ``held``: its test files, which are not."""

    shown: tuple[FileChange, ...]
    held: tuple[FileChange, ...]

    @property
    def native(self) -> bool:
        """Whether no Python of torch is among what is shown."""
        return not any(file.path.endswith(".py") and file.path.startswith(PYTHON) for file in self.shown)


def split(files: Iterable[FileChange]) -> Split | None:
    """None for a commit that says nothing: no test edited, no source edited, or too many files."""
    found = tuple(files)
    held = tuple(file for file in found if kind_of(file.path) is FileKind.TEST)
    shown = tuple(file for file in found if is_source(file.path))
    if not held or not shown or len(found) > MOST_FILES:
        return None
    return Split(shown, held)


def is_source(path: str) -> bool:
    """What torch is built or made of; pages, CI and third parties' code are not shown, nor is anything under test/."""
    return path.startswith(("torch/", "aten/", "c10/", "torchgen/", "tools/autograd/", "functorch/"))


def edited(before: Collection[tuple[TestId, str]], after: Collection[tuple[TestId, str]]) -> frozenset[TestId]:
    """Tests of both sides whose fingerprint differs: those that the commit edits. New tests cannot be selected for a
    change that does not bring them."""
    old = dict(before)
    return frozenset(test for test, print_ in after if test in old and old[test] != print_)


@dataclass(frozen=True, slots=True)
class CommitOutcome:
    """``expected`` tests that the commit edits, ``selected`` of them;
    ``share``: of the tree's tests that were selected; ``widened``: because something could not be mapped."""

    commit: str
    native: bool
    expected: int
    selected: int
    share: float
    widened: bool
    seconds: float
    missed: tuple[str, ...] = ()
    cosmetic: bool = False
    """only comments and docstrings of the sources differ: no test can fail for them, and the commit says nothing"""


@dataclass(frozen=True, slots=True)
class HistoryLine:
    """``commits``: of which at least one edited test is selected; ``tests``: edited tests that are."""

    group: str
    commits: Rate
    tests: Rate
    share: float
    widened: int


def lines(outcomes: Iterable[CommitOutcome]) -> list[HistoryLine]:
    """All, and Python and native commits apart; once more without those that widened. Cosmetic ones do not count."""
    found = [outcome for outcome in outcomes if not outcome.cosmetic]
    groups = {
        "all": found,
        "Python": [o for o in found if not o.native],
        "native": [o for o in found if o.native],
        "not widened": [o for o in found if not o.widened],
    }
    return [
        HistoryLine(
            name,
            Rate(sum(o.selected > 0 for o in of), len(of)),
            Rate(sum(o.selected for o in of), sum(o.expected for o in of)),
            sum(o.share for o in of) / len(of) if of else 0.0,
            sum(o.widened for o in of),
        )
        for name, of in groups.items()
    ]


def shown_change(base: str, head: str, parts: Split) -> Change:
    """The change as the selector sees it: without its tests and without its title, which may name them."""
    return Change(base, head, parts.shown)


def shown_files(parts: Split, head: Tree) -> dict[str, bytes | None]:
    """What is laid over the base so that it has the commit's sources and the old tests."""
    laid: dict[str, bytes | None] = {}
    for file in parts.shown:
        laid[file.path] = file.new
        if file.old_path is not None and file.old_path != file.path:
            laid[file.old_path] = None
    return laid
