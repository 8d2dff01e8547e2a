"""An edit of a config as the fewest changed lines: whatever it does not say stays as it was, byte for byte.

The text is never written anew from what it means. Marks of the YAML parser say where an entry, a name or a mode stands,
and only those characters are replaced; comments, quoting, order and blank lines are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from selector.configs import ConfigSource
from selector.errors import ConfigError
from selector.model import Mode, TestId
from selector.plan.patch_tolerance import ToleranceEdit, op_dtype_changes
from selector.plan.yaml_nodes import dash_of, entry_lines, get, last_line, scalar, scalars

ROOT = "${TORCH_ROOT}/"
_ROOTS = (ROOT, "${PYTORCH_ROOT}/")


@dataclass(frozen=True, slots=True)
class ConfigEdit:
    """One test gets another mode: ``mode`` None takes it out of its entry, so that what holds for the file's other
    tests holds for it. ``until``: a date (2026-12-31) or a version."""

    test: TestId
    mode: Mode | None
    reason: str
    evidence: str
    issue: str = ""
    until: str = ""

    def why(self) -> list[tuple[str, str]]:
        given = (("reason", self.reason), ("evidence", self.evidence), ("issue", self.issue), ("until", self.until))
        return [(key, value) for key, value in given if value]


@dataclass(frozen=True, slots=True)
class Respell:
    """A name or a path is written differently, in place: the text ``was`` that stands at ``line`` and ``column`` (both
    from 1, as the config's own places) becomes ``to``."""

    line: int
    column: int
    was: str
    to: str


def respell(source: ConfigSource, words: Sequence[Respell]) -> ConfigSource:
    """The config with the words replaced, each in the quotes that it has. Raises ConfigError where something else
    stands there."""
    text = _Text(source.name, source.text)
    return ConfigSource(source.name, text.respelled(words))


def drop_file(source: ConfigSource, path: str) -> ConfigSource:
    """The config without the block of a file. Raises ConfigError where there is none, or no other."""
    return ConfigSource(source.name, _Text(source.name, source.text).without_file(path))


def patch(source: ConfigSource, edits: Sequence[ConfigEdit | ToleranceEdit]) -> ConfigSource:
    """The config with the edits, in their order. Raises ConfigError with the place of what cannot be edited: a text
    that is not a suite, or an entry that does more than give its tests a mode."""
    text = source.text
    for edit in edits:
        now = _Text(source.name, text)
        text = now.tolerated(edit) if isinstance(edit, ToleranceEdit) else now.edited(edit)
    return ConfigSource(source.name, text)


@dataclass(frozen=True, slots=True)
class _Entry:
    node: MappingNode
    names: SequenceNode
    name: ScalarNode


class _Text:
    """A config's text and its nodes."""

    def __init__(self, source: str, text: str) -> None:
        self.source, self.text = source, text
        try:
            loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
            self.root: Node | None = yaml.compose(text, Loader=loader)
        except yaml.MarkedYAMLError as exc:
            mark = exc.problem_mark
            line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
            raise ConfigError(source, line, column, f"not valid YAML: {exc.problem}") from exc
        self.starts = [0]
        for line_text in text.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line_text))

    def edited(self, edit: ConfigEdit) -> str:
        entry = self._entry(edit.test)
        if entry is None:
            return self.text if edit.mode is None else self._added(edit, None)
        if len(entry.names.value) == 1:
            return self._removed_entry(entry) if edit.mode is None else self._changed(entry, edit)
        without = self._removed_name(entry)
        if edit.mode is None:
            return without
        return _Text(self.source, without)._added(edit, entry.node.start_mark.line)

    def tolerated(self, edit: ToleranceEdit) -> str:
        """An op's tolerance stands with the op's dtype in ``global.supported_ops``; a test without ops gets an entry
        for the dtype."""
        if edit.op is None:
            return self._added(edit, None)
        text = self.text
        for start, end, new in sorted(op_dtype_changes(self.source, self.root, text, edit), reverse=True):
            text = text[:start] + new + text[end:]
        return text

    def respelled(self, words: Sequence[Respell]) -> str:
        written = {(n.start_mark.line + 1, n.start_mark.column + 1): n for n in scalars(self.root)}
        text = self.text
        for word in sorted(words, key=lambda w: (w.line, w.column), reverse=True):
            node = written.get((word.line, word.column))
            if node is None or node.value != word.was or node.style in ("|", ">"):
                raise ConfigError(self.source, word.line, word.column, f"{word.was!r} does not stand here")
            plain = scalar(word.to)
            quoted = f"{node.style}{word.to}{node.style}" if node.style and not set("'\"\\") & set(word.to) else plain
            text = text[: node.start_mark.index] + quoted + text[node.end_mark.index :]
        return text

    def without_file(self, path: str) -> str:
        node = self._file(TestId(path, "", ""))
        if node is None:
            raise ConfigError(self.source, 1, 1, f"there is no block of {path}")
        if len(self._suite_files().value) == 1:
            line = node.start_mark.line + 1
            raise ConfigError(self.source, line, 1, "it is the only file of its config", "take the config out by hand")
        return self._cut(node.start_mark.line, last_line(node))

    # ------------------------------------------------------------------------------------------------------- finding

    def _suite_files(self) -> SequenceNode:
        suite = get(self.root, "test_suite_config")
        files = get(suite, "files")
        if not isinstance(files, SequenceNode):
            raise ConfigError(self.source, 1, 1, "there is no test_suite_config.files to edit", "docs/configs.md")
        return files

    def _file(self, test: TestId) -> MappingNode | None:
        for node in self._suite_files().value:
            path = get(node, "path")
            if isinstance(path, ScalarNode) and any(path.value == root + test.file for root in _ROOTS):
                return node if isinstance(node, MappingNode) else None
        return None

    def _entries(self, test: TestId) -> Iterator[MappingNode]:
        tests = get(self._file(test), "tests")
        for node in tests.value if isinstance(tests, SequenceNode) else ():
            if isinstance(node, MappingNode):
                yield node

    def _entry(self, test: TestId) -> _Entry | None:
        """The entry that names the test exactly and for all of its variants."""
        for node in self._entries(test):
            names = get(node, "names")
            for name in names.value if isinstance(names, SequenceNode) else ():
                if isinstance(name, ScalarNode) and name.value in (f"{test.cls}::{test.method}", test.method):
                    if get(node, "edits") is None:
                        assert isinstance(names, SequenceNode)
                        return _Entry(node, names, name)
                    line = node.start_mark.line + 1
                    message = f"the entry of {test.method} also edits its ops or dtypes"
                    raise ConfigError(self.source, line, 1, message, "edit it by hand")
        return None

    # ------------------------------------------------------------------------------------------------------- editing

    def _cut(self, first: int, last: int) -> str:
        """The text without the lines ``first`` to ``last`` (0-based, both included)."""
        return self.text[: self.starts[first]] + self.text[self.starts[last + 1] :]

    def _insert(self, after: int, lines: Sequence[str]) -> str:
        """The text with lines after the line ``after``."""
        at = self.starts[min(after + 1, len(self.starts) - 1)]
        head = self.text[:at]
        if head and not head.endswith("\n"):
            head += "\n"
        return head + "".join(f"{line}\n" for line in lines) + self.text[at:]

    def _removed_entry(self, entry: _Entry) -> str:
        tests = [n for n in self._entries_of(entry) if n is not entry.node]
        if not tests:
            line = entry.node.start_mark.line + 1
            raise ConfigError(
                self.source, line, 1, "it is the only entry of its file", "take the file's tests out by hand"
            )
        return self._cut(entry.node.start_mark.line, last_line(entry.node))

    def _entries_of(self, entry: _Entry) -> list[Node]:
        for file in self._suite_files().value:
            tests = get(file, "tests")
            if isinstance(tests, SequenceNode) and entry.node in tests.value:
                return list(tests.value)
        return []

    def _removed_name(self, entry: _Entry) -> str:
        if not entry.names.flow_style:
            return self._cut(entry.name.start_mark.line, entry.name.end_mark.line)
        items = entry.names.value
        at = items.index(entry.name)
        # with the comma before it, or, for the first, the one behind it
        start, end = (
            (items[at - 1].end_mark.index, entry.name.end_mark.index)
            if at
            else (entry.name.start_mark.index, items[1].start_mark.index)
        )
        return self.text[:start] + self.text[end:]

    def _changed(self, entry: _Entry, edit: ConfigEdit) -> str:
        """The entry's own mode and reasons, in place."""
        assert edit.mode is not None
        text, lines = self.text, []
        replaced: list[tuple[int, int, str]] = []
        for key, value in [("mode", edit.mode.value), *edit.why()]:
            there = get(entry.node, key)
            if there is None:
                lines.append(f"{' ' * entry.node.start_mark.column}{key}: {scalar(value)}")
            elif there.start_mark.line != there.end_mark.line:
                line = there.start_mark.line + 1
                raise ConfigError(self.source, line, 1, f"{key} stands on several lines", "edit it by hand")
            else:
                replaced.append((there.start_mark.index, there.end_mark.index, scalar(value)))
        if lines:
            text = self._insert(last_line(entry.node), lines)
        for start, end, value in sorted(replaced, reverse=True):  # all of them stand before what was inserted
            text = text[:start] + value + text[end:]
        return text

    def _added(self, edit: ConfigEdit | ToleranceEdit, beside: int | None) -> str:
        """A new entry: behind the one that began on the line ``beside``, else at the end of the file's entries."""
        assert edit.mode is not None
        file = self._file(edit.test)
        name = f"{edit.test.cls}::{edit.test.method}"
        pairs = [("mode", edit.mode.value), *edit.why()]
        more = edit.entry_lines() if isinstance(edit, ToleranceEdit) else []
        if file is None:
            files = self._suite_files()
            dash = dash_of(self.text, files.value[-1]) if files.value else files.start_mark.column
            key = " " * (dash + 2)
            lines = [
                f"{' ' * dash}- path: {ROOT}{edit.test.file}",
                f"{key}unlisted_test_mode: mandatory_success",
                f"{key}tests:",
                *entry_lines(dash + 4, name, pairs, more),
            ]
            return self._insert(last_line(files), lines)
        entries = list(self._entries(edit.test))
        if not entries:
            if get(file, "tests") is not None:
                line = file.start_mark.line + 1
                raise ConfigError(self.source, line, 1, "its tests are not a list of entries", "edit it by hand")
            column = file.start_mark.column
            lines = [f"{' ' * column}tests:", *entry_lines(column + 2, name, pairs, more)]
            return self._insert(last_line(file), lines)
        after = next((e for e in entries if e.start_mark.line == beside), entries[-1])
        return self._insert(last_line(after), entry_lines(dash_of(self.text, after), name, pairs, more))
