"""The comments of a config, and what each is about: older configs keep their reasons there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

_ISSUE = re.compile(r"https?://github\.com/([\w.-]+/[\w.-]+)/(?:issues|pull)/(\d+)\S*|\b([\w.-]+/[\w.-]+#\d+)\b")
_MODE_WORD = re.compile(r"^(?:xfail|xfail_strict|skip|mandatory_success)\s*[:\-–]\s*", re.IGNORECASE)
_KEYS = (
    "names|mode|tags|labels|edits|ops|dtypes|modules|functions|include|exclude|name|description|precision|atol|rtol|files"
    "|path|unlisted_test_mode|tests|global|supported_dtypes|supported_ops|force_xfail|cpu_move|no_grad"
)
_OUT_COMMENTED = re.compile(rf"^(?:-\s+\S+$|-\s+\w+\s*:|(?:{_KEYS})\s*:|-\s+\S+::\S+|\S+::\S+$)")


@dataclass(slots=True)
class Comment:
    """``line`` and ``column`` are 0-based; ``trailing``: something of the config stands before it on its line."""

    line: int
    column: int
    text: str
    trailing: bool

    @property
    def said(self) -> str:
        """The words, without the marks around them; "" for a rule of ``####`` and for config that was commented out."""
        words = self.text.strip("# \t")
        return "" if _OUT_COMMENTED.match(words) else words


@dataclass(frozen=True, slots=True)
class Reason:
    """What the comments of one thing say, as ``reason`` and ``issue``."""

    reason: str = ""
    issue: str = ""


def as_reason(texts: list[str]) -> Reason:
    """One reason from comments in their order; the first issue that they name becomes ``issue``."""
    said = " ".join(" ".join(texts).split())
    found = _ISSUE.search(said)
    issue = (f"{found[1]}#{found[2]}" if found[1] else found[3]) if found else ""
    if found:
        said = (said[: found.start()] + said[found.end() :]).strip(" ,;:-()[]")
    said = _MODE_WORD.sub("", said)
    return Reason(" ".join(said.split()), issue)


@dataclass(slots=True)
class EntryComments:
    """Comments about one entry of ``tests``: of all of it, of each name, of each item of its edits (by line)."""

    node: MappingNode
    whole: list[Comment] = field(default_factory=list)
    names: dict[int, list[Comment]] = field(default_factory=dict)
    items: dict[int, list[Comment]] = field(default_factory=dict)


def find_comments(text: str) -> list[Comment]:
    """Every comment of a YAML text. Raises yaml.YAMLError for a text that is not YAML."""
    ends: dict[int, int] = {}
    covered: set[int] = set()
    for token in yaml.scan(text, Loader=yaml.SafeLoader):
        start, end = token.start_mark, token.end_mark
        if isinstance(token, yaml.ScalarToken) and (token.style in ("|", ">") or end.line > start.line):
            covered.update(range(start.line + 1, end.line))
        if not isinstance(token, yaml.BlockEndToken | yaml.StreamEndToken) and end.column:
            ends[end.line] = max(ends.get(end.line, 0), end.column)
    found = []
    for number, line in enumerate(text.splitlines()):
        if number in covered:
            continue
        after = ends.get(number, 0)
        at = line.find("#", after)
        if at >= 0 and not line[after:at].strip() and (at == 0 or line[at - 1].isspace()):
            found.append(Comment(number, at, line[at:], bool(after and line[:after].strip())))
    return found


def entry_comments(root: Node, comments: list[Comment]) -> list[EntryComments]:
    """Assigns comments to the test entries below ``root``. A comment line is about the entry that it is indented in,
    else about the one that follows; above a name it heads the names up to the next such line."""
    found = [EntryComments(node) for node in _entries(root)]
    for i, entry in enumerate(found):
        start = entry.node.start_mark.line
        stop = found[i + 1].node.start_mark.line if i + 1 < len(found) else _end(entry.node)
        before = found[i - 1].node.end_mark.line if i else start - 40
        dash = entry.node.start_mark.column - 2
        for comment in comments:
            if not comment.said:
                continue
            if max(before - 40, 0) <= comment.line < start and _heads(comment, comments, start, dash):
                entry.whole.append(comment)
            elif start <= comment.line < stop and (comment.trailing or comment.column > dash):
                _within(entry, comment)
    return found


def _heads(comment: Comment, comments: list[Comment], start: int, dash: int) -> bool:
    """Whether it is of the unbroken block of comment lines right above the entry, at the entry's own indentation."""
    own = {c.line for c in comments if not c.trailing and c.column <= dash}
    return not comment.trailing and all(line in own for line in range(comment.line, start))


def _within(entry: EntryComments, comment: Comment) -> None:
    names: Node | None = None
    edits: Node | None = None
    for key, value in entry.node.value:
        if key.value == "names":
            names = value
        elif key.value == "edits":
            edits = value
    for item in _maps_with_name(edits) if edits is not None else ():
        if (
            item.start_mark.line <= comment.line < max(item.end_mark.line, item.start_mark.line + 1)
            and comment.trailing
        ):
            entry.items.setdefault(item.start_mark.line, []).append(comment)
            return
    if isinstance(names, SequenceNode) and not names.flow_style and names.value:
        lines = [item.start_mark.line for item in names.value]
        if comment.trailing and comment.line in lines:
            entry.names.setdefault(comment.line, []).append(comment)
            return
        if not comment.trailing and lines[0] <= comment.line < lines[-1]:
            for line in lines:  # a heading within the list: about the names below it
                if line > comment.line:
                    entry.names.setdefault(line, []).append(comment)
            return
    entry.whole.append(comment)


def _end(node: Node) -> int:
    return int(node.end_mark.line) + (1 if node.end_mark.column else 0)


def _entries(root: Node) -> Iterator[MappingNode]:
    for suite in _values(root, "test_suite_config"):
        for files in _values(suite, "files"):
            for file in files.value if isinstance(files, SequenceNode) else ():
                for tests in _values(file, "tests"):
                    for entry in tests.value if isinstance(tests, SequenceNode) else ():
                        if isinstance(entry, MappingNode):
                            yield entry


def _values(node: Node, key: str) -> Iterator[Node]:
    for k, value in node.value if isinstance(node, MappingNode) else ():
        if isinstance(k, ScalarNode) and k.value == key:
            yield value


def _maps_with_name(node: Node) -> Iterator[MappingNode]:
    if isinstance(node, MappingNode):
        if any(isinstance(k, ScalarNode) and k.value == "name" for k, _ in node.value):
            yield node
            return
        for _, value in node.value:
            yield from _maps_with_name(value)
    elif isinstance(node, SequenceNode):
        for item in node.value:
            yield from _maps_with_name(item)
