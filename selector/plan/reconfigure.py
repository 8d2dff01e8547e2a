"""What an upgrade means for a device's configs: names that are called differently now, names of nothing, tests that an
entry could begin to run. As the fewest changed lines, each with its reason; what only a person can write is said."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Literal

from selector.configs import ConfigProblem, ConfigSource, ReuseConfigs, lint, load_configs
from selector.configs.diff import Side as DiffSide
from selector.configs.diff import named_tests
from selector.configs.model import Place
from selector.configs.patterns import NamePattern, PathPattern
from selector.configs.tree import FileEntry, Suite, TestEntry
from selector.discover.diff import Difference
from selector.discover.inventory import Inventory
from selector.errors import ConfigError
from selector.model import Mode, TestId
from selector.plan.patch import ConfigEdit, Respell, drop_file, patch, respell
from selector.plan.validate import unified

EditKind = Literal["renamed", "file moved", "removed", "file removed", "proposed"]


@dataclass(frozen=True, slots=True)
class Edited:
    """One edit. ``source``, ``line``: where it was written (0: nowhere yet); ``was``, ``to``: names or paths."""

    kind: EditKind
    source: str
    line: int
    was: str
    to: str
    reason: str


@dataclass(frozen=True, slots=True)
class Reconfigured:
    """``sources``: every config of the device after the edits; ``by_hand``: what a person has to do; ``patch``:
    unified, with a line for each edit's reason before it, as ``git apply`` takes it."""

    edits: tuple[Edited, ...]
    by_hand: tuple[str, ...]
    sources: tuple[ConfigSource, ...]
    patch: str


@dataclass(slots=True)
class _Draft:
    words: list[Respell] = field(default_factory=list)
    edits: list[ConfigEdit] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)


def reconfigure(
    difference: Difference,
    names: tuple[str, str],
    inventories: tuple[Inventory, Inventory],
    relevant: Collection[TestId],
    configs: ReuseConfigs,
    texts: Sequence[ConfigSource],
    today: date,
) -> Reconfigured:
    """``names`` and ``inventories`` of the old and the new release; ``relevant``: tests to evaluate on the device."""
    return _Work(difference, names, inventories, configs).run(sorted(relevant), texts, today)


class _Work:
    def __init__(
        self,
        difference: Difference,
        names: tuple[str, str],
        inventories: tuple[Inventory, Inventory],
        configs: ReuseConfigs,
    ) -> None:
        self.names, (self.old, self.new), self.configs = names, inventories, configs
        self.moved = {change.was: change.test for change in difference.changes if change.was is not None}
        self.added = {change.test for change in difference.changes if change.kind == "new"}
        self.unread = {path for _, path, _ in difference.problems}
        self.drafts: dict[str, _Draft] = defaultdict(_Draft)
        self.edits: list[Edited] = []
        self.by_hand: list[str] = []
        self.wanted: list[ConfigEdit] = []

    def run(self, relevant: Sequence[TestId], texts: Sequence[ConfigSource], today: date) -> Reconfigured:
        for file in self._written():
            self._file(file)
        for test in relevant:
            if test in self.added:
                self._propose(test)
        after = tuple(self._apply(source) for source in texts)
        made = [edit for edit in self.edits if edit.source]
        if any(a.text != b.text for a, b in zip(texts, after, strict=True)):
            self.by_hand += [f"look at it: {what}" for what in self._wrong(texts, after, today)]
        return Reconfigured(tuple(made), tuple(self.by_hand), after, _with_reasons(texts, after, made))

    def _wrong(self, texts: Sequence[ConfigSource], after: Sequence[ConfigSource], today: date) -> list[str]:
        """What the edits do beside what they are for. Modes alone can differ: no edit touches an op or a dtype."""
        known = {_kind(problem) for problem in lint(texts, today=today)}
        new = [problem for problem in lint(after, today=today) if _kind(problem) not in known]
        if any(problem.level == "error" for problem in new):
            return [f"new problem: {problem}" for problem in new]
        then, now = self.configs, load_configs(after, platform=self.configs.platform)
        wanted = {edit.test: edit.mode for edit in self.wanted}
        wrong = [f"new problem: {problem}" for problem in new]
        for test in dict.fromkeys([*named_tests(DiffSide(then), DiffSide(now)), *wanted]):
            a, b = then.rule(test), now.rule(test)
            if test not in wanted and (a.mode, a.listed, a.reason) != (b.mode, b.listed, b.reason):
                wrong.append(f"{test} changes too: {a.mode.value} -> {b.mode.value}")
            elif (mode := wanted.get(test)) is not None and b.mode is not mode:
                wrong.append(f"{test} is {b.mode.value} by {b.source or 'no entry'}, not {mode.value}")
        return wrong

    def _written(self) -> Iterator[FileEntry]:
        """Each file entry once, however many configs extend it."""
        seen: set[tuple[str, int, int]] = set()
        for suite in self.configs.suites:
            for file in suite.files:
                at = _at(file.path.place or file.place)
                if at not in seen:
                    seen.add(at)
                    yield file

    # ---------------------------------------------------------------------------------------------------- what is there

    def _file(self, file: FileEntry) -> None:
        before = [path for path in sorted(self.old.ids) if file.path.matches(path)]
        if not before or self.unread.intersection(before):
            return
        here = [path for path in sorted(self.new.ids) if file.path.matches(path)]
        if self.unread.intersection(here):
            return
        if not here:
            heir = self._heir(before)
            if heir is None:
                self._dead_file(file, before)
                return
            place = file.path.place or file.place
            to = file.path.text.replace(before[0], heir)
            why = f"its tests are in {heir}"
            self._say("file moved", place, file.path.text, to, why)
            self._respell(place, file.path.text, to)
            here = [heir]
        for entry in file.tests:
            for name in entry.names:
                if name.method_regex is None and name.cls_regex is None:
                    self._name(file, entry, name, before, here)

    def _heir(self, before: Sequence[str]) -> str | None:
        """The file that has most of the tests of one that is gone."""
        went = Counter(new.file for old, new in self.moved.items() if old.file in before)
        if not went:
            return None
        path, tests = went.most_common(1)[0]
        return path if 2 * tests >= sum(went.values()) else None

    def _dead_file(self, file: FileEntry, before: Sequence[str]) -> None:
        place = file.path.place or file.place
        if file.path.path is None or file.path.regex is not None:
            self._hand(place, f"{file.path.text} matches no file of {self.names[1]}")
            return
        self._say("file removed", place, file.path.text, "", f"{before[0]} is gone in {self.names[1]}")
        self.drafts[place.source].dropped.append(file.path.path)
        self.wanted += [ConfigEdit(test, None, "", "") for test in self._named(file)]

    def _named(self, file: FileEntry) -> Iterator[TestId]:
        for entry in file.tests:
            for name in entry.names:
                if name.cls and name.cls_regex is None and name.method_regex is None and file.path.path:
                    yield TestId(file.path.path, name.cls, name.method)

    def _name(
        self, file: FileEntry, entry: TestEntry, name: NamePattern, before: Sequence[str], here: Sequence[str]
    ) -> None:
        place = name.place or entry.place
        olds = [test for path in before for test, _, _ in self.old.tests(path) if name.matches(test)]
        alive = any(name.matches(test) for path in here for test, _, _ in self.new.tests(path))
        if not olds:
            return  # it named nothing before either: lint tells
        if alive:
            if list(before) != list(here):  # the same name under the file's new path
                self.wanted += [ConfigEdit(old, None, "", "") for old in olds]
                self.wanted += [ConfigEdit(self.moved[o], entry.mode, "", "") for o in olds if o in self.moved]
            return
        went = {self.moved[test] for test in olds if test in self.moved}
        if not went:
            self._remove(place, name, olds, here)
            return
        written = {f"{test.cls}::{test.method}" if name.cls else test.method for test in went}
        inside = {test.file for test in went} <= set(here)
        if inside and len(written) == 1 and len(went) == len(olds):
            to = written.pop()
            self._say("renamed", place, name.text, to, f"{olds[0]} is {min(went)} in {self.names[1]}")
            self._respell(place, name.text, to)
            self.wanted += [ConfigEdit(test, None, "", "") for test in olds]
            self.wanted += [ConfigEdit(test, entry.mode, "", "") for test in went]
        elif len(olds) == len(went) == 1 and name.cls and _is_plain(entry):
            self._take_along(place, entry, olds[0], went.pop(), here)
        else:
            told = ", ".join(map(str, sorted(went)[:3]))
            self._hand(place, f"{name.text!r} is now {told}: the entry has to be written anew")

    def _remove(self, place: Place, name: NamePattern, olds: Sequence[TestId], here: Sequence[str]) -> None:
        self._say("removed", place, name.text, "", f"{olds[0]} is gone in {self.names[1]}")
        now = TestId(here[0] if olds[0].file not in here else olds[0].file, olds[0].cls, olds[0].method)
        self.drafts[place.source].edits.append(ConfigEdit(now, None, "", ""))
        self.wanted += [ConfigEdit(test, None, "", "") for test in olds]

    def _take_along(self, place: Place, entry: TestEntry, was: TestId, now: TestId, here: Sequence[str]) -> None:
        self._say("renamed", place, str(was), str(now), f"it went to another file in {self.names[1]}")
        there = was if was.file in here else TestId(here[0], was.cls, was.method)
        why = entry.why
        edits = [
            ConfigEdit(there, None, "", ""),
            ConfigEdit(now, entry.mode, why.reason, why.evidence, why.issue, why.until),
        ]
        self.drafts[place.source].edits += edits
        self.wanted += edits

    def _propose(self, test: TestId) -> None:
        """A new test of a file whose block names those that run: nobody would run it."""
        for suite, file in self._blocks(test.file):
            if file.unlisted is Mode.SKIP and not file.why.reason and any(e.mode is not Mode.SKIP for e in file.tests):
                if self.configs.rule(test).listed:
                    return
                source = (file.path.place or file.place).source or suite.source
                reason = f"new in {self.names[1]}"
                edit = ConfigEdit(test, Mode.MANDATORY_SUCCESS, reason, "triage: relevant for the device, not run yet")
                name = f"{test.cls}::{test.method}"
                self.edits.append(Edited("proposed", source, 0, "", f"{test.file}::{name}", reason))
                self.drafts[source].edits.append(edit)
                self.wanted.append(edit)
                return

    def _blocks(self, path: str) -> Iterator[tuple[Suite, FileEntry]]:
        for suite in self.configs.suites:
            for file in suite.files:
                if _is_exact(file.path) and file.path.path == path:
                    yield suite, file

    # ------------------------------------------------------------------------------------------------------- saying it

    def _say(self, kind: EditKind, place: Place, was: str, to: str, reason: str) -> None:
        self.edits.append(Edited(kind, place.source, place.line, was, to, reason))

    def _hand(self, place: Place, what: str) -> None:
        self.by_hand.append(f"{place}: {what}")

    def _respell(self, place: Place, was: str, to: str) -> None:
        self.drafts[place.source].words.append(Respell(place.line, place.column, was, to))

    def _apply(self, source: ConfigSource) -> ConfigSource:
        """The config after its draft; an edit that cannot be made costs that edit, and is said."""
        draft = self.drafts.get(source.name)
        if draft is None:
            return source
        try:
            source = respell(source, draft.words)
        except ConfigError as exc:
            self.by_hand.append(str(exc))
        for edit in draft.edits:
            try:
                source = patch(source, [edit])
            except ConfigError as exc:
                self.by_hand.append(str(exc))
        for path in draft.dropped:
            try:
                source = drop_file(source, path)
            except ConfigError as exc:
                self.by_hand.append(str(exc))
        return source


def _kind(problem: ConfigProblem) -> tuple[str, str, str]:
    return problem.source, problem.code, problem.message.partition(" (the other")[0]


def _at(place: Place) -> tuple[str, int, int]:
    return place.source, place.line, place.column


def _is_exact(path: PathPattern) -> bool:
    return path.path is not None and path.regex is None


def _is_plain(entry: TestEntry) -> bool:
    """Whether mode and reasons are all that the entry says."""
    empty = TestEntry(entry.place, entry.names, entry.mode, entry.why)
    return entry == empty


def _with_reasons(before: Sequence[ConfigSource], after: Sequence[ConfigSource], edits: Sequence[Edited]) -> str:
    """The unified difference, file by file, each with its edits' reasons in front: text that ``git apply`` skips."""
    parts: list[str] = []
    for was, now in zip(before, after, strict=True):
        text = unified([was], [now])
        if text:
            parts += [f"# {line}\n" for edit in edits if edit.source == was.name for line in [_told(edit)]]
            parts.append(text)
    return "".join(parts)


def _told(edit: Edited) -> str:
    what = f"{edit.was} -> {edit.to}" if edit.was and edit.to else edit.was or edit.to
    return " ".join(f"{edit.kind}: {what}: {edit.reason}".split())
