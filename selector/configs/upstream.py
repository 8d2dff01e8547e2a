"""Checks of configs against a checked-out upstream: what names nothing, what never governs, what governs twice.

Static: tests made by loops and factories, and by classes of other files, are not all visible to the inventory; a name
that may be one of those is a warning, not an error.
"""

from __future__ import annotations

import difflib
import posixpath
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from selector.configs.check import everything, problem_at
from selector.configs.model import ConfigProblem, Place, op_names
from selector.configs.overlaps import Overlaps
from selector.configs.patterns import NamePattern
from selector.configs.tree import FileEntry, Item, Suite, TestEntry
from selector.configs.unused_inputs import check_inputs
from selector.discover.inventory import Inventory
from selector.model import OpDatabase, TestId

_PROPOSED = 3
_MAKES_CLASSES = re.compile(rb"\btype\(\s*[^)\s,]+\s*,|globals\(\)\[|make_test_class")
_ISSUE_URL = re.compile(r"https?://github\.com/([\w.-]+/[\w.-]+)/(?:issues|pull)/(\d+)/?")


@dataclass(frozen=True, slots=True)
class Upstream:
    """What configs are checked against.

    ``was``: the inventory of the upstream that the configs were last right for; proposes renames by fingerprint.
    ``version``: upstream's own (``2.14.0a0``), for ``until``.
    """

    inventory: Inventory
    was: Inventory | None = None
    opdb: OpDatabase | None = None
    version: str = ""
    read: Callable[[str], bytes] | None = None
    """reads a file of it, to tell what a loop or a factory may make; None: nothing is taken to be made"""


def check_upstream(suites: Sequence[Suite], upstream: Upstream, *, compat: bool = False) -> list[ConfigProblem]:
    """Every problem, in no order. ``compat``: what the older tool let pass is a warning."""
    return _Check(suites, upstream, compat).run()


def check_reasons(suites: Sequence[Suite], *, version: str = "", issues: Mapping[str, str]) -> list[ConfigProblem]:
    """Warnings for each entry whose ``issue`` is closed, or whose ``until`` version has come."""
    problems = []
    states = {normal_issue(key): state for key, state in issues.items()}
    now = _numbers(version)
    for thing in everything(suites):
        what = thing.name if isinstance(thing, Item) else "this entry"
        if thing.why.issue and states.get(normal_issue(thing.why.issue), "").lower() == "closed":
            message = f"{what} points to {thing.why.issue}, which is closed"
            problems.append(problem_at(thing.place, "warning", "config-issue-closed", message, "is it still needed?"))
        until = _numbers(thing.why.until) if "-" not in thing.why.until else ()
        if now and until and now[: len(until)] >= until:
            message = f"{what} was to hold until {thing.why.until}; this upstream is {version}"
            hint = "look at it again, then move or remove the version"
            problems.append(problem_at(thing.place, "warning", "config-until-passed", message, hint))
    return problems


def normal_issue(text: str) -> str:
    """``owner/repo#12`` for that or for its URL; anything else as it is."""
    found = _ISSUE_URL.fullmatch(text.strip())
    return f"{found[1]}#{found[2]}".lower() if found else text.strip().lower()


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"v?(\d+(?:\.\d+)*)", version.strip())
    return tuple(int(part) for part in found[1].split(".")) if found else ()


def _targets_of_setattr(source: bytes) -> set[str]:
    """What attributes are set on, classes only: names as written, ``cls`` for a variable that may hold any."""
    found = {word.decode() for word in re.findall(rb"\bsetattr\(\s*(\w+)", source)}
    return {"cls" if "cls" in word.lower() or "class" in word.lower() else word for word in found if word != "self"}


class _Check:
    def __init__(self, suites: Sequence[Suite], upstream: Upstream, compat: bool) -> None:
        self.suites, self.upstream, self.compat = suites, upstream, compat
        self.problems: list[ConfigProblem] = []
        self.paths = [path for path in upstream.inventory.files if path.startswith("test/")]
        self._tests: dict[str, list[TestId]] = {}
        self._fingerprints: dict[str, list[TestId]] | None = None
        self._sources: dict[str, bytes] = {}

    def run(self) -> list[ConfigProblem]:
        for suite in self.suites:
            for file in suite.files:
                if file.path.path is not None:
                    self.file(suite, file)
        if self.upstream.opdb is not None:
            self.ops(self.upstream.opdb)
        paths = {path for s in self.suites for f in s.files for path in self.paths if f.path.matches(path)}
        overlaps = Overlaps(self.suites, (test for path in sorted(paths) for test in self.tests(path)))
        for place, message in overlaps.unreachable():
            self.add(place, "config-unreachable", message, "take it out", warn=True)
        for place, message in overlaps.conflicts():
            self.add(place, "config-conflict", message, "let one of the two say it")
        return self.problems

    def add(self, place: Place, code: str, message: str, hint: str = "", *, warn: bool = False) -> None:
        self.problems.append(problem_at(place, "warning" if warn or self.compat else "error", code, message, hint))

    def tests(self, path: str) -> list[TestId]:
        """Tests of a file, those that its classes inherit from classes in the inventory among them."""
        if path not in self._tests:
            found: dict[TestId, None] = {}
            record = self.upstream.inventory.files.get(path)
            for name in record.classes if record is not None else ():
                for method in self._methods(path, name, set()):
                    found[TestId(path, name, method)] = None
            self._tests[path] = list(found)
        return self._tests[path]

    def _methods(self, path: str, name: str, seen: set[tuple[str, str]]) -> Iterator[str]:
        record = self.upstream.inventory.files.get(path)
        cls = record.classes.get(name) if record is not None else None
        if record is None or cls is None or (path, name) in seen:
            return
        seen.add((path, name))
        yield from (test.name for test in cls.tests)
        for base in cls.bases:
            last = base.rpartition(".")[2]
            if last in record.classes:
                yield from self._methods(path, last, seen)
                continue
            for bound in record.imports:
                if bound.local == base.split(".")[0]:
                    wanted = bound.name if bound.name and bound.local == base else last
                    for target in self._modules(path, bound.module):
                        yield from self._methods(target, wanted, seen)

    def _modules(self, path: str, module: str) -> Iterator[str]:
        """Files that ``import module`` in a test file can mean: beside it, or below ``test/``."""
        tail = module.replace(".", "/")
        for folder in (posixpath.dirname(path), "test"):
            for candidate in (f"{folder}/{tail}.py", f"{folder}/{tail}/__init__.py"):
                if candidate in self.upstream.inventory.files:
                    yield candidate
                    return

    # ------------------------------------------------------------------------------------------------ files and names

    def file(self, suite: Suite, file: FileEntry) -> None:
        at = file.path.place or file.place
        here = [path for path in self.paths if file.path.matches(path)]
        if not here and file.allow_empty:
            return  # the entry itself says so
        if not here:
            fine = file.path.regex is not None and suite.allow_empty
            glob = file.path.regex is not None
            what = "the glob matches no file of upstream" if glob else "there is no such file in upstream"
            self.add(at, "config-dead-file", f"{file.path.text}: {what}", self._moved_file(file), warn=fine)
            return
        for entry in file.tests:
            for name in entry.names:
                if not any(name.matches(test) for path in here for test in self.tests(path)):
                    self.name(entry, name, here)
        self.problems += check_inputs(file, here, self.upstream.inventory)

    def _moved_file(self, file: FileEntry) -> str:
        path = file.path.path or ""
        was = self.upstream.was
        if was is not None and path in was.ids:
            same = [p for p in self.paths if self.upstream.inventory.ids[p] == was.ids[path]]
            if not same:
                votes: dict[str, int] = defaultdict(int)
                for test, _, _ in was.tests(path):
                    for found in self._by_body(self._hash(was, test)):
                        votes[found.file] += 1
                half = sum(votes.values()) / 2
                same = sorted((p for p, n in votes.items() if n >= half), key=lambda p: -votes[p])
            if same:
                return f"it is now {same[0]}, by its tests' fingerprints"
        same_name = [p for p in self.paths if posixpath.basename(p) == posixpath.basename(path)]
        close = same_name or difflib.get_close_matches(path, self.paths, n=_PROPOSED, cutoff=0.75)
        return f"near: {', '.join(close[:_PROPOSED])}" if close else ""

    def name(self, entry: TestEntry, name: NamePattern, here: list[str]) -> None:
        at = name.place or entry.place
        tests = [test for path in here for test in self.tests(path)]
        renamed = self._renamed(name, here)
        if renamed:
            self.add(at, "config-dead-name", f"{name.text!r} names no test of upstream", f"renamed: {renamed}")
            return
        base, by_ops = self._generated(name, tests)
        if base is not None and not by_ops:
            message = f"{name.text!r} may be one parametrisation of {base}, which the source does not show"
            self.add(at, "config-unseen-name", message, f"{base!r} covers all of them", warn=True)
            return
        if base is not None:
            hint = f"write {base!r}; op and dtype are named under edits"
            self.add(at, "config-generated-name", f"{name.text!r} is a generated name", hint)
            return
        if self._may_be_made(name, here):
            message = f"{name.text!r} is not to be seen in the source; a loop or a factory may make it"
            self.add(at, "config-unseen-name", message, self._near(name, tests), warn=True)
            return
        self.add(at, "config-dead-name", f"{name.text!r} names no test of upstream", self._near(name, tests))

    def _near(self, name: NamePattern, tests: list[TestId]) -> str:
        elsewhere = sorted({t.cls for t in tests if name.method_regex is None and t.method == name.method})
        if elsewhere:
            return f"{name.method} is in {', '.join(elsewhere[:_PROPOSED])}"
        words = {f"{t.cls}::{t.method}" if name.cls else t.method for t in tests}
        close = difflib.get_close_matches(name.text, words, n=_PROPOSED, cutoff=0.7)
        return f"near: {', '.join(close)}" if close else ""

    def _generated(self, name: NamePattern, tests: list[TestId]) -> tuple[str | None, bool]:
        """(the base name, whether an op's name stands behind it). A parametrisation of another kind can be named."""
        if name.method_regex is not None:
            return None, False
        bases = [t for t in tests if name.covers_class(t.cls) and name.method.startswith(t.method + "_")]
        best = max(bases, key=lambda t: len(t.method), default=None)
        if best is None:
            return None, False
        found = self.upstream.inventory.find(best)
        decorators = {d.name for d in found[1].decorators} if found is not None else set()
        by_ops = bool(decorators & {"ops", "modules"}) or self._is_suffix(name.method[len(best.method) + 1 :])
        if not by_ops and "parametrize" not in decorators:
            return None, False
        return (f"{name.cls}::{best.method}" if name.cls else best.method), by_ops

    def _is_suffix(self, suffix: str) -> bool:
        """Whether an op of the database could have put it behind a base name."""
        opdb = self.upstream.opdb
        return opdb is not None and any(
            suffix == word or suffix.startswith(word + "_")
            for op in opdb.ops
            for word in (f"{op.name}_{op.variant}".strip("_").replace(".", "_"), op.name.replace(".", "_"))
        )

    def _may_be_made(self, name: NamePattern, here: list[str]) -> bool:
        """A class that the file mentions, but does not define, or a class whose methods are set by a call."""
        for path in here:
            record = self.upstream.inventory.files[path]
            if record.problem:
                return True
            source = self._source(path)
            exact = name.cls if name.cls_regex is None else None
            if exact is not None and exact not in record.classes:
                if exact.encode() in source or _MAKES_CLASSES.search(source):
                    return True
            elif any(exact is None or target in (exact, "cls") for target in _targets_of_setattr(source)):
                return True
        return False

    def _source(self, path: str) -> bytes:
        if self.upstream.read is None:
            return b""
        if path not in self._sources:
            self._sources[path] = self.upstream.read(path)
        return self._sources[path]

    def _renamed(self, name: NamePattern, here: list[str]) -> str:
        """Tests that the name named in the earlier upstream, by what they are now: same body, another name."""
        was = self.upstream.was
        if was is None:
            return ""
        found: dict[str, None] = {}
        for path in here:
            for test, _, _ in was.tests(path):
                if name.matches(test):
                    for now in self._by_body(self._hash(was, test))[:_PROPOSED]:
                        place = f"{now.file}::" if now.file != path else ""
                        found[f"{place}{now.cls}::{now.method}"] = None
        return ", ".join(list(found)[:_PROPOSED])

    @staticmethod
    def _hash(inventory: Inventory, test: TestId) -> str:
        symbol = inventory.files[test.file].symbols.get(f"{test.cls}.{test.method}")
        return symbol.own if symbol is not None else ""

    def _by_body(self, own: str) -> list[TestId]:
        if self._fingerprints is None:
            self._fingerprints = defaultdict(list)
            for test, _, _ in self.upstream.inventory.tests():
                self._fingerprints[self._hash(self.upstream.inventory, test)].append(test)
        return self._fingerprints.get(own, []) if own else []

    # -------------------------------------------------------------------------------------------------------- ops

    def ops(self, opdb: OpDatabase) -> None:
        spellings = {word for op in opdb.ops for word in op_names(op.name, op.variant)}
        names = sorted({f"{op.name}.{op.variant}" if op.variant else op.name for op in opdb.ops})
        modules = {word for name in opdb.modules for word in (*op_names(name), f"torch.{name}")}
        seen: set[tuple[str, Place]] = set()

        def look(item: Item, known: set[str], words: Sequence[str], what: str) -> None:
            if item.name not in known and (item.name, item.place) not in seen:
                seen.add((item.name, item.place))
                close = difflib.get_close_matches(item.name, words, n=_PROPOSED, cutoff=0.7)
                hint = f"near: {', '.join(close)}" if close else ""
                self.add(item.place, "config-unknown-op", f"no {what} {item.name!r} in torch {opdb.torch}", hint)

        for suite in self.suites:
            for item in suite.globals.ops or ():
                look(item, spellings, names, "op")
            for file in suite.files:
                if file.path.path is None:
                    continue  # the downstream's own tests have names of their own
                for entry in file.tests:
                    for item in (*entry.ops.include, *entry.ops.exclude):
                        look(item, spellings, names, "op")
                    for item in entry.modules.exclude:
                        look(item, modules, sorted(opdb.modules), "module")


def issues_from(value: object) -> dict[str, str]:
    """A cached list of issues: ``{"owner/repo#12": "closed"}`` or GitHub's own list of objects."""
    if isinstance(value, Mapping):
        return {str(key): str(state) for key, state in value.items()}
    found: dict[str, str] = {}
    for item in value if isinstance(value, Iterable) and not isinstance(value, str) else ():
        if isinstance(item, Mapping) and item.get("html_url"):
            found[str(item["html_url"])] = str(item.get("state", ""))
    return found
