"""Checks across entries: two that are equally specific and disagree, an ``until`` that has passed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from itertools import combinations, product

from selector.configs.model import ConfigProblem, Level, Place
from selector.configs.patterns import NamePattern, PathPattern
from selector.configs.rank import entry_score
from selector.configs.tree import Edits, FileEntry, Item, Suite, TestEntry


def problem_at(place: Place, level: Level, code: str, message: str, hint: str = "") -> ConfigProblem:
    return ConfigProblem(place.source, place.line, place.column, level, code, message, hint, place.path)


def check_conflicts(suites: Sequence[Suite], compat: bool) -> list[ConfigProblem]:
    """Modes that contradict each other, within a config and between configs."""
    problems: list[ConfigProblem] = []

    def complain(at: TestEntry | FileEntry, first: TestEntry | FileEntry, message: str) -> None:
        level: Level = "warning" if compat else "error"
        text = f"{message} (the other: {first.place})"
        problems.append(problem_at(at.place, level, "config-conflict", text, "let one of the two say it"))

    files = [(suite, file) for suite in suites for file in suite.files]

    def disagree(pairs: Iterable[tuple[TestEntry, TestEntry]], other_config: bool) -> None:
        for x, y in pairs:
            name = _shared_name(x, y, other_config) if x.mode is not y.mode else None
            if name is not None and tie(x, y):
                complain(y, x, f"{name} is {y.mode.value} here and {x.mode.value} there")

    for (suite_a, a), (suite_b, b) in combinations(files, 2):
        if _same_path(a.path, b.path) and a.unlisted is not b.unlisted and _normal(a.path) == _normal(b.path):
            message = f"unlisted tests of {b.path.text} are {b.unlisted.value} here and {a.unlisted.value} there"
            complain(b, a, message)
        if not _same_path(a.path, b.path):
            continue
        other = suite_a is not suite_b
        if not other and a.path.specificity != b.path.specificity:
            continue  # within one config the more exact path decides
        disagree(product(a.tests, b.tests), other)
    for _, file in files:
        disagree(combinations(file.tests, 2), False)
    return problems


def _normal(path: PathPattern) -> str:
    return path.path if path.path is not None else path.text


def _same_path(a: PathPattern, b: PathPattern) -> bool:
    if _normal(a) == _normal(b):
        return True
    if a.path is None or b.path is None:
        return False
    return (a.regex is None and b.matches(a.path)) or (b.regex is None and a.matches(b.path))


def _shared_name(x: TestEntry, y: TestEntry, other_config: bool) -> str | None:
    """A name that both entries hold. Between configs a missing class is any class; within one it is less specific."""
    mine = {(n.method, n.cls): n for n in x.names}
    loose: dict[str, NamePattern] = {n.method: n for n in x.names if n.cls is None} if other_config else {}
    methods = {n.method for n in x.names}
    for n in y.names:
        if (n.method, n.cls) in mine or n.method in loose or (other_config and n.cls is None and n.method in methods):
            return n.text
    return None


def tie(x: TestEntry, y: TestEntry) -> bool:
    """Whether some op and dtype make both entries equally specific, on some machine."""
    if x.platforms and y.platforms and not set(x.platforms) & set(y.platforms):
        return False
    for op in _samples(x.ops, y.ops):
        for dtype in _samples(x.dtypes, y.dtypes):
            if _drops(x, op, dtype) or _drops(y, op, dtype):
                continue
            scores = [entry_score(e, frozenset((op,)), frozenset((dtype,))) for e in (x, y)]
            if scores[0] == scores[1]:
                return True
    return False


def _samples(a: Edits, b: Edits) -> list[str]:
    names = sorted({item.name for item in a.include + b.include})
    return names if a.include or b.include else [""]


def _drops(entry: TestEntry, op: str, dtype: str) -> bool:
    return any(i.name == op for i in entry.ops.exclude) or any(i.name == dtype for i in entry.dtypes.exclude)


def check_until(suites: Sequence[Suite], today: date) -> list[ConfigProblem]:
    """A warning for each entry and item whose ``until`` date lies in the past. Versions are not compared here."""
    problems = []
    for thing in everything(suites):
        try:
            end = date.fromisoformat(thing.why.until)
        except ValueError:
            continue
        if end < today:
            what = thing.name if isinstance(thing, Item) else "this entry"
            message = f"{what} was to hold until {thing.why.until}"
            hint = "look at it again, then move or remove the date"
            problems.append(problem_at(thing.place, "warning", "config-until-passed", message, hint))
    return problems


def everything(suites: Sequence[Suite]) -> Iterator[Item | TestEntry | FileEntry]:
    """All that carries a reason."""
    for suite in suites:
        for items in (suite.globals.dtypes, suite.globals.ops, suite.globals.modules, suite.globals.op_precision):
            yield from items or ()
        for file in suite.files:
            yield file
            for entry in file.tests:
                yield entry
                for edits in (entry.ops, entry.dtypes, entry.modules):
                    yield from edits.include
                    yield from edits.exclude
