"""Reading YAML as a tree of nodes, so that every complaint names its line and column.

PyYAML's ``safe_load`` forgets places, and lets a duplicate key win without a word; ``compose`` keeps both. A
:class:`Document` collects every problem instead of stopping at the first.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from selector.configs.model import ConfigProblem, Level

MAX_BYTES = 4_000_000
MAX_NODES = 1_000_000
MAX_DEPTH = 100
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NULL, _MERGE = "tag:yaml.org,2002:null", "tag:yaml.org,2002:merge"
_T = TypeVar("_T")

Fields = dict[str, tuple[Node, Node]]
"""key -> (key node, value node)"""


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint that proposes the known word nearest to ``word``, or lists them all when none is near."""
    words = sorted(set(known))
    close = difflib.get_close_matches(word, words, n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}?" if close else f"known here: {', '.join(words)}"


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


class Document:
    """One YAML text being read. ``compat`` turns the problems marked lenient into warnings."""

    def __init__(self, name: str, text: str, *, compat: bool = False) -> None:
        self.name = name
        self.compat = compat
        self.problems: list[ConfigProblem] = []
        self.root = self._compose(text)

    # ------------------------------------------------------------------------------------------------- complaining

    def problem(
        self, node: Node | None, code: str, message: str, hint: str = "", *, lenient: bool = False, warn: bool = False
    ) -> None:
        line, column = self.place(node)
        level: Level = "warning" if warn or (lenient and self.compat) else "error"
        found = ConfigProblem(self.name, line, column, level, code, message, hint)
        if found not in self.problems:  # an anchored part is read once for each alias
            self.problems.append(found)

    def place(self, node: Node | None) -> tuple[int, int]:
        if node is None or node.start_mark is None:
            return 1, 1
        return node.start_mark.line + 1, node.start_mark.column + 1

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
            self.problems.append(ConfigProblem(self.name, line, column, "error", "config-yaml", message))
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
                self.problem(node, "config-yaml", "an anchor that contains itself")
                return MAX_NODES + 1
            if depth > MAX_DEPTH:
                self.problem(node, "config-too-large", f"nested deeper than {MAX_DEPTH} levels")
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
            self.problem(root, "config-too-large", f"anchors unfold into more than {MAX_NODES:,} nodes")
        return False

    # ----------------------------------------------------------------------------------------------------- reading

    def fields(self, node: Node, what: str, known: Iterable[str] | None) -> Fields | None:
        """The entries of a map. ``known`` None: any key. Complains about other types, unknown and duplicate keys."""
        if not isinstance(node, MappingNode):
            self._wrong(node, what, "a map")
            return None
        own, merged = self._flatten(node)
        merged.update(own)
        if known is not None:
            words = tuple(known)
            for key in [k for k in merged if k not in words]:
                hint = nearest(key, words)
                self.problem(merged[key][0], "config-unknown-key", f"unknown key {key!r} in {what}", hint, lenient=True)
                del merged[key]
        return merged

    def _flatten(self, node: MappingNode) -> tuple[Fields, Fields]:
        own: Fields = {}
        merged: Fields = {}
        for key, value in node.value:
            if key.tag == _MERGE:
                parts = value.value if isinstance(value, SequenceNode) else [value]
                for part in reversed(parts):  # the first of a list wins
                    if not isinstance(part, MappingNode):
                        self.problem(part, "config-type", f"'<<' merges maps, this is {kind(part)}")
                        continue
                    mine, theirs = self._flatten(part)
                    merged.update(theirs)
                    merged.update(mine)
                continue
            if not isinstance(key, ScalarNode):
                self.problem(key, "config-type", f"a key must be a word, this is {kind(key)}")
                continue
            if key.value in own:
                first = self.place(own[key.value][0])[0]
                self.problem(key, "config-duplicate-key", f"{key.value!r} is given twice, first on line {first}")
                continue
            own[key.value] = (key, value)
        return own, merged

    def items(self, node: Node, what: str) -> list[Node]:
        """The items of a list. An empty heading (null) and every other type is an error."""
        if isinstance(node, SequenceNode):
            return list(node.value)
        self._wrong(node, what, "a list")
        return []

    def text(self, node: Node, what: str) -> str | None:
        """A non-empty string."""
        if isinstance(node, ScalarNode) and node.tag == "tag:yaml.org,2002:str" and node.value.strip():
            return str(node.value)
        self._wrong(node, what, "a text")
        return None

    def raw(self, node: Node, what: str) -> str | None:
        """The characters of a scalar as written: dates and versions that YAML would turn into something else."""
        if isinstance(node, ScalarNode) and not is_null(node) and node.value.strip():
            return str(node.value).strip()
        self._wrong(node, what, "a text")
        return None

    def texts(self, node: Node, what: str) -> tuple[str, ...]:
        found = (self.text(item, f"an item of {what}") for item in self.items(node, what))
        return tuple(t for t in found if t is not None)

    def word(self, node: Node, what: str, known: Iterable[str], code: str) -> str | None:
        """One of a closed set of words."""
        words = tuple(known)
        value = self.raw(node, what)
        if value is None or value in words:
            return value
        self.problem(node, code, f"{what} cannot be {value!r}", nearest(value, words))
        return None

    def flag(self, node: Node, what: str) -> bool | None:
        if isinstance(node, ScalarNode) and node.tag == "tag:yaml.org,2002:bool":
            return node.value.lower() in ("true", "yes", "on")
        self._wrong(node, what, "true or false")
        return None

    def number(self, node: Node, what: str, *, minimum: float | None = None) -> float | None:
        """A number. YAML 1.1 reads ``1e-3`` as a text; it is taken for the number it is."""
        value: float | None = None
        if isinstance(node, ScalarNode) and node.tag.rsplit(":", 1)[-1] in ("int", "float", "str"):
            try:
                value = float(node.value.replace("_", "").replace(".inf", "inf").replace(".nan", "nan"))
            except ValueError:
                value = None
        if value is None or value != value:
            self._wrong(node, what, "a number")
            return None
        if minimum is not None and value < minimum:
            self.problem(node, "config-value", f"{what} must be at least {minimum:g}, not {node.value}")
            return None
        return value

    def integer(self, node: Node, what: str, *, minimum: int | None = None) -> int | None:
        if isinstance(node, ScalarNode) and node.tag.rsplit(":", 1)[-1] == "int":
            try:
                value = int(node.value.replace("_", ""), 0)
            except ValueError:  # 017 and 1:30 are numbers to YAML 1.1 and puzzles to people
                value = None
            if value is not None:
                if minimum is not None and value < minimum:
                    self.problem(node, "config-value", f"{what} must be at least {minimum}, not {value}")
                    return None
                return value
        self._wrong(node, what, "a whole number")
        return None

    def plain(self, node: Node, what: str) -> object:
        """Any value as Python's own: maps, lists, texts, numbers, booleans, None. Duplicate keys are errors."""
        if isinstance(node, MappingNode):
            found = self.fields(node, what, None) or {}
            return {key: self.plain(value, f"{what}.{key}") for key, (_, value) in found.items()}
        if isinstance(node, SequenceNode):
            return [self.plain(item, what) for item in node.value]
        try:
            constructor = yaml.constructor.SafeConstructor()
            value: object = constructor.construct_object(node)
        except (yaml.YAMLError, ValueError) as e:
            self.problem(node, "config-value", f"{what} cannot be read: {e}")
            return None
        return value

    def each(self, found: Mapping[str, tuple[Node, Node]], key: str, read: Callable[[Node], _T | None]) -> _T | None:
        """``read`` on the value of ``key``, or None where the key is absent."""
        return read(found[key][1]) if key in found else None

    def _wrong(self, node: Node, what: str, wanted: str) -> None:
        if is_null(node):
            self.problem(node, "config-null", f"{what} is empty; it must be {wanted}", "fill it, or take the key out")
        else:
            self.problem(node, "config-type", f"{what} must be {wanted}, not {kind(node)}")
