"""Reading YAML into values that know their places.

PyYAML's ``safe_load`` forgets places, and lets a duplicate key win without a word; ``compose`` keeps both. A
:class:`Document` collects every problem instead of stopping at the first.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from selector.configs.model import ConfigProblem, Level, Place
from selector.configs.values import Map, Real, Seq, Text, Whole

MAX_BYTES = 4_000_000
MAX_NODES = 1_000_000
MAX_DEPTH = 100
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG = "tag:yaml.org,2002:"
_NULL, _MERGE = f"{_TAG}null", f"{_TAG}merge"


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint that proposes the known word nearest to ``word``, and says all that are allowed."""
    words = sorted(set(known))
    close = difflib.get_close_matches(word, words, n=1, cutoff=0.6)
    allowed = f"allowed: {', '.join(words)}"
    return f"did you mean {close[0]!r}? {allowed}" if close else allowed


def is_null(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.tag == _NULL


def kind(node: Node) -> str:
    """What a person would call the value: ``a map``, ``a list``, ``empty``, ``the text 'x'``, ``the number 3``."""
    if isinstance(node, MappingNode):
        return "a map"
    if isinstance(node, SequenceNode):
        return "a list"
    if is_null(node):
        return "empty"
    tag = node.tag.rsplit(":", 1)[-1]
    word = {"int": "the number", "float": "the number", "bool": "the boolean", "str": "the text"}.get(tag, f"the {tag}")
    return f"{word} {str(node.value)[:60]!r}"


def tab_hint(lines: Sequence[str], line: int) -> str:
    """What YAML's own message does not say of a line, counted from 1: it is a tab, which nobody sees. Else nothing."""
    said = lines[line - 1] if 0 < line <= len(lines) else ""
    return "a tab is there: indent with spaces" if "\t" in said[: len(said) - len(said.lstrip())] else ""


class Document:
    """One YAML text. ``root`` holds its values, None where it cannot be read. ``compat`` turns the problems marked
    lenient into warnings."""

    def __init__(self, name: str, text: str, *, compat: bool = False) -> None:
        self.name = name
        self.compat = compat
        self.devices: tuple[str, ...] = ()
        """what the sheets that are given along call their devices"""
        self.problems: list[ConfigProblem] = []
        self._found: set[ConfigProblem] = set()  # a file may have as many problems as lines
        self._scalars = yaml.constructor.SafeConstructor()
        node = self._compose(text)
        self.root: Any = self._value(node, "") if node is not None else None
        self.node = node

    # ------------------------------------------------------------------------------------------------- complaining

    def problem(
        self, place: Place | None, code: str, message: str, hint: str = "", *, lenient: bool = False, warn: bool = False
    ) -> None:
        at = place or Place(self.name, 1, 1)
        level: Level = "warning" if warn or (lenient and self.compat) else "error"
        found = ConfigProblem(self.name, at.line, at.column, level, code, message, hint, at.path)
        if found not in self._found:  # an anchored part is read once for each alias
            self._found.add(found)
            self.problems.append(found)

    def place(self, node: Node | None, path: str = "") -> Place:
        if node is None or node.start_mark is None:
            return Place(self.name, 1, 1, path)
        return Place(self.name, node.start_mark.line + 1, node.start_mark.column + 1, path)

    def _at(self, node: Node | None, path: str, code: str, message: str, hint: str = "") -> None:
        self.problem(self.place(node, path), code, message, hint)

    # ----------------------------------------------------------------------------------------------------- composing

    def _compose(self, text: str) -> Node | None:
        if len(text) > MAX_BYTES:
            self.problem(None, "config-too-large", f"the file has {len(text):,} characters, over {MAX_BYTES:,}")
            return None
        try:
            root: Node | None = yaml.compose(text, Loader=_LOADER)
        except yaml.MarkedYAMLError as e:
            mark = e.problem_mark or e.context_mark
            line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
            message = f"not valid YAML: {e.problem or e.context}"
            said = ConfigProblem(
                self.name, line, column, "error", "config-yaml", message, tab_hint(text.splitlines(), line)
            )
            self.problems.append(said)
            return None
        except yaml.YAMLError as e:  # a character that YAML does not allow
            at = getattr(e, "position", 0)
            line, column = text.count("\n", 0, at) + 1, at - (text.rfind("\n", 0, at) + 1) + 1
            message = f"not valid YAML: {getattr(e, 'reason', e)}"
            self.problems.append(ConfigProblem(self.name, line, column, "error", "config-yaml", message))
            return None
        except RecursionError:
            self.problem(None, "config-too-large", "the file is nested too deeply to be read")
            return None
        if root is None:
            self.problem(None, "config-empty", "the file is empty", "start it with 'test_suite_config:'")
            return None
        return root if self._bounded(root) else None

    def _bounded(self, root: Node) -> bool:
        """Refuses aliases that contain themselves, and those that unfold into millions of nodes."""
        sizes: dict[int, int] = {}
        open_: set[int] = set()

        def size(node: Node, depth: int) -> int:
            if id(node) in sizes:
                return sizes[id(node)]
            if id(node) in open_:
                self._at(node, "", "config-yaml", "an anchor that contains itself")
                return MAX_NODES + 1
            if depth > MAX_DEPTH:
                self._at(node, "", "config-too-large", f"nested deeper than {MAX_DEPTH} levels")
                return MAX_NODES + 1
            open_.add(id(node))
            total = 1
            if isinstance(node, SequenceNode):
                for item in node.value:
                    total += size(item, depth + 1)
            elif isinstance(node, MappingNode):
                for key, value in node.value:
                    total += size(key, depth + 1) + size(value, depth + 1)
            open_.discard(id(node))
            sizes[id(node)] = total
            return total

        if size(root, 0) <= MAX_NODES:
            return True
        if not self.problems:
            self._at(root, "", "config-too-large", f"anchors unfold into more than {MAX_NODES:,} nodes")
        return False

    # ----------------------------------------------------------------------------------------------------- values

    def _value(self, node: Node, path: str) -> Any:
        if isinstance(node, MappingNode):
            found = Map(self.place(node, path))
            own, merged = self._flatten(node, path)
            for key, pair in {**merged, **own}.items():
                found.nodes[key] = pair
                found[key] = self._value(pair[1], f"{path}.{key}" if path else key)
            return found
        if isinstance(node, SequenceNode):
            items = Seq(self.place(node, path))
            items.nodes = list(node.value)
            items.extend(self._value(item, f"{path}[{i}]") for i, item in enumerate(node.value))
            return items
        return self._scalar(node, path)

    def _flatten(
        self, node: MappingNode, path: str
    ) -> tuple[dict[str, tuple[Node, Node]], dict[str, tuple[Node, Node]]]:
        own: dict[str, tuple[Node, Node]] = {}
        merged: dict[str, tuple[Node, Node]] = {}
        for key, value in node.value:
            if key.tag == _MERGE:
                parts = value.value if isinstance(value, SequenceNode) else [value]
                for part in reversed(parts):  # the first of a list wins
                    if not isinstance(part, MappingNode):
                        self._at(part, path, "config-type", f"'<<' merges maps, this is {kind(part)}")
                        continue
                    mine, theirs = self._flatten(part, path)
                    merged |= theirs | mine
                continue
            if not isinstance(key, ScalarNode):
                self._at(key, path, "config-type", f"a key must be a word, this is {kind(key)}")
                continue
            if key.value in own:
                first = self.place(own[key.value][0]).line
                where = f"{path}.{key.value}" if path else key.value
                self._at(key, where, "config-duplicate-key", f"{key.value!r} is given twice, first on line {first}")
                continue
            own[key.value] = (key, value)
        return own, merged

    def _scalar(self, node: Node, path: str) -> Any:
        tag = node.tag.removeprefix(_TAG)
        raw = str(node.value)
        try:
            if tag == "int":
                whole = Whole(raw.replace("_", ""), 0)  # 017 and 1:30 are numbers to YAML 1.1 and puzzles to people
                whole.raw, whole.place = raw, self.place(node, path)
                return whole
            if tag == "float":
                real = Real(self._scalars.construct_object(node))
                real.raw, real.place = raw, self.place(node, path)
                return real
            if tag not in ("str", "timestamp"):
                return self._scalars.construct_object(node)
        except ValueError:
            pass  # left as a text: the model that wants a number says so
        except yaml.YAMLError as e:
            self._at(node, path, "config-value", f"a value that cannot be read: {getattr(e, 'problem', e)}")
        text = Text(raw)
        text.place = self.place(node, path)
        return text
