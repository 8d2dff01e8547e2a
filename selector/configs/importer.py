"""``relay config import``: existing configs into this format.

Comments become ``reason`` and ``issue``; a ``global`` that several files repeat becomes one sheet that they extend;
``unlisted_test_mode`` is written out where it was left to the older tool's default, which is not ours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from yaml.nodes import MappingNode, SequenceNode

from selector.configs import roundtrip
from selector.configs.comments import Comment, EntryComments, Reason, as_reason, entry_comments, find_comments
from selector.configs.model import ConfigSource
from selector.errors import ConfigError

SHEET = "shared.yaml"
OLD_UNLISTED = "xfail"
"""what the older tool does with unlisted tests when a file entry does not say"""


@dataclass(frozen=True, slots=True)
class Imported:
    """The written files, the shared sheet among them, and counts of what was found."""

    files: tuple[ConfigSource, ...]
    reasons: int
    issues: int
    sharing: int
    split: int


@dataclass(slots=True)
class _Counts:
    reasons: int = 0
    issues: int = 0
    split: int = 0


def import_configs(sources: Sequence[ConfigSource], sheet: str = SHEET) -> Imported:
    """Converts configs that are to lie in one folder. Raises ConfigError for a text that is not YAML."""
    counts = _Counts()
    documents = {source.name: _converted(source, counts) for source in sources}
    blocks = {name: roundtrip.dump(g) for name, d in documents.items() if (g := _globals(d)) is not None}
    common = Counter(blocks.values()).most_common(1)
    written: list[ConfigSource] = []
    sharing: list[str] = []
    if common and common[0][1] > 1:
        block = common[0][0]
        sharing = [name for name, text in blocks.items() if text == block]
        shared = CommentedMap({"global": roundtrip.load(sheet, block)})
        written.append(ConfigSource(sheet, roundtrip.dump(shared)))
        for name in sharing:
            suite = documents[name]["test_suite_config"]
            del suite["global"]
            suite.insert(0, "extends", sheet)
    written += [ConfigSource(name, roundtrip.dump(document)) for name, document in documents.items()]
    return Imported(tuple(written), counts.reasons, counts.issues, len(sharing), counts.split)


def _globals(document: Any) -> Any:
    suite = document.get("test_suite_config") if isinstance(document, CommentedMap) else None
    return suite.get("global") if isinstance(suite, CommentedMap) else None


def _converted(source: ConfigSource, counts: _Counts) -> Any:
    try:
        root = yaml.compose(source.text, Loader=yaml.SafeLoader)
        comments = find_comments(source.text) if root is not None else []
    except yaml.YAMLError as exc:
        mark = getattr(exc, "problem_mark", None)
        line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
        raise ConfigError(source.name, line, column, f"not valid YAML: {getattr(exc, 'problem', exc)}") from exc
    if root is None:
        raise ConfigError(source.name, 1, 1, "the file is empty", "start it with 'test_suite_config:'")
    found = entry_comments(root, comments)
    used = [c for e in found for c in (*e.whole, *_all(e.names), *_all(e.items))]
    used += [c for c in comments if not c.trailing and not c.text.strip("# ")]  # rules of ####
    document = roundtrip.load(source.name, _without(source.text, used))
    suite = document.get("test_suite_config") if isinstance(document, CommentedMap) else None
    if not isinstance(suite, CommentedMap):
        return document
    position = 0
    for file in suite.get("files") or ():
        if not isinstance(file, CommentedMap):
            continue
        if "unlisted_test_mode" not in file:
            file.insert(min(1, len(file)), "unlisted_test_mode", OLD_UNLISTED)
        tests = file.get("tests")
        if not isinstance(tests, CommentedSeq):
            continue
        _move_kwargs(tests)
        new: list[tuple[int, list[Any]]] = []
        for index, entry in enumerate(tests):
            if isinstance(entry, CommentedMap):
                new.append((index, _explained(entry, found[position], counts)))
                position += 1
        for index, entries in reversed(new):
            tests[index] = entries[0]
            for more in reversed(entries[1:]):
                tests.insert(index + 1, more)
    return document


def _move_kwargs(value: Any) -> None:
    """``kwargs`` beside ``sample_inputs_func`` had no effect in the older tool; they belong to the call."""
    if isinstance(value, CommentedMap):
        inputs = value.get("sample_inputs_func")
        if isinstance(inputs, CommentedMap) and isinstance(value.get("kwargs"), CommentedMap):
            misplaced = value.pop("kwargs")
            own = inputs.setdefault("kwargs", CommentedMap())
            for key, given in misplaced.items():
                own.setdefault(key, given)
        for inner in value.values():
            _move_kwargs(inner)
    elif isinstance(value, CommentedSeq):
        for inner in value:
            _move_kwargs(inner)


def _all(found: dict[int, list[Comment]]) -> list[Comment]:
    return [c for cs in found.values() for c in cs]


def _without(text: str, comments: list[Comment]) -> str:
    lines = text.splitlines()
    gone: set[int] = set()
    for comment in comments:
        kept = lines[comment.line][: comment.column].rstrip()
        if kept.strip():
            lines[comment.line] = kept
        else:
            gone.add(comment.line)
    return "\n".join(line for number, line in enumerate(lines) if number not in gone) + "\n"


def _explained(entry: CommentedMap, comments: EntryComments, counts: _Counts) -> list[Any]:
    """The entry with its reason; several entries when its names have reasons of their own."""
    _explain_items(entry, comments, counts)
    whole = as_reason([c.said for c in comments.whole])
    names = entry.get("names")
    lines = _name_lines(comments)
    groups: dict[Reason, list[Any]] = {}
    if isinstance(names, CommentedSeq) and len(lines) == len(names):
        for name, line in zip(names, lines, strict=True):
            own = as_reason([c.said for c in comments.names.get(line, ())])
            groups.setdefault(own if own != Reason() else whole, []).append(name)
    if len(groups) < 2:
        _put(entry, next(iter(groups), whole), counts)
        return [entry]
    counts.split += 1
    entries = []
    for reason, members in groups.items():
        part = CommentedMap((key, value) for key, value in entry.items() if key != "names")
        part.insert(0, "names", CommentedSeq(members))
        _put(part, reason, counts)
        entries.append(part)
    return entries


def _name_lines(comments: EntryComments) -> list[int]:
    for key, value in comments.node.value:
        if key.value == "names" and isinstance(value, SequenceNode):
            return [int(item.start_mark.line) for item in value.value]
    return []


def _explain_items(entry: CommentedMap, comments: EntryComments, counts: _Counts) -> None:
    if not comments.items:
        return

    def walk(node: Any, data: Any) -> None:
        if isinstance(node, MappingNode) and isinstance(data, CommentedMap):
            own = comments.items.get(int(node.start_mark.line))
            if own and "name" in data:
                _put(data, as_reason([c.said for c in own]), counts)
            for key, value in node.value:
                walk(value, data.get(key.value))
        elif isinstance(node, SequenceNode) and isinstance(data, CommentedSeq):
            for item, value in zip(node.value, data, strict=True):
                walk(item, value)

    walk(comments.node, entry)


def _put(target: CommentedMap, why: Reason, counts: _Counts) -> None:
    """Adds ``reason`` and ``issue`` after ``mode`` (or the name), unless they are there."""
    at = next((i + 1 for i, key in enumerate(target) if key in ("mode", "name")), 1)
    for key, value in (("issue", why.issue), ("reason", why.reason)):
        if value and key not in target:
            target.insert(min(at, len(target)), key, value)
            setattr(counts, key + "s", getattr(counts, key + "s") + 1)
