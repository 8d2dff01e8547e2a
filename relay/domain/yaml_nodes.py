"""YAML read as nodes, for documents that people write: every error has its line and column, no object is made of a
node, so tags and anchors cannot do anything."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

import yaml

from relay.errors import DocumentError
from selector.configs.nodes import tab_hint

_NULL = "tag:yaml.org,2002:null"


class _Loader(yaml.SafeLoader):
    """YAML as people write it here: upstream's own file shows ``[@oncall1,@oncall2]``, though YAML reserves the @."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.bare_at: dict[int, int] = {}  # line -> first column, 1-based

    def check_plain(self) -> bool:
        if super().check_plain():
            return True
        if self.peek() == "@" and re.match(r"[\w-]", self.peek(1)):
            mark = self.get_mark()
            self.bare_at.setdefault(mark.line + 1, mark.column + 1)
            return True
        return False


class NodeReader:
    """Reads the nodes of one document. ``source`` (a path or URL) goes into the errors."""

    error: type[DocumentError] = DocumentError
    page = ""

    def __init__(self, source: str) -> None:
        self.source = source
        self.lines: list[str] = []

    def _compose(self, text: str) -> tuple[yaml.Node | None, dict[int, int]]:
        """The document's root, and where (line, column) it has an @ that YAML reserves."""
        self.lines = text.splitlines()
        try:
            loader = _Loader(text)
            root = loader.get_single_node()
        except yaml.MarkedYAMLError as exc:
            mark = exc.problem_mark or exc.context_mark
            where = (mark.line + 1, mark.column + 1) if mark else (1, 1)
            raise self.error(self.source, *where, f"not valid YAML: {exc.problem}", self._mend(where[0])) from exc
        except yaml.reader.ReaderError as exc:
            before = text[: exc.position]
            where = (before.count("\n") + 1, exc.position - (before.rfind("\n") + 1) + 1)
            problem = f"the character U+{exc.character:04X} is not allowed in YAML"
            raise self.error(self.source, *where, problem, "remove it") from exc
        except (RecursionError, ValueError) as exc:
            raise self.error(self.source, 1, 1, f"cannot be read as YAML: {exc}", self.page) from exc
        return root, loader.bare_at

    def _list(self, node: yaml.Node, what: str) -> Iterator[yaml.Node]:
        if isinstance(node, yaml.SequenceNode):
            yield from node.value
        elif isinstance(node, yaml.ScalarNode):
            if not is_null(node):
                yield node
        else:
            raise self._error(node, f"{what} must be a list, not a map", "write [one, two]")

    def _scalar(self, node: yaml.Node, what: str) -> str:
        if not isinstance(node, yaml.ScalarNode) or is_null(node):
            raise self._error(node, f"expected {what}, found {shape(node)}")
        return str(node.value)

    def _pairs(self, node: yaml.Node, what: str, hint: str) -> list[tuple[yaml.ScalarNode, yaml.Node]]:
        if not isinstance(node, yaml.MappingNode):
            raise self._error(node, f"{what} must be a map, not {shape(node)}", hint)
        seen: dict[str, int] = {}
        for key, _value in node.value:
            text = self._scalar(key, "a key")
            if text in seen:
                raise self._error(key, f"the key {text} stands twice", f"it already stands in line {seen[text]}")
            seen[text] = key.start_mark.line + 1
        return list(node.value)

    def _unknown(self, node: yaml.Node, what: str, known: tuple[str, ...], more: str = "") -> DocumentError:
        text = str(node.value)
        near = difflib.get_close_matches(text.casefold(), [k.casefold() for k in known], 1, 0.5)
        nearest = next((k for k in known if near and k.casefold() == near[0]), None)
        hint = f"did you mean {nearest}?" if nearest else f"known: {', '.join(known)}{more}"
        return self._error(node, f"unknown {what} {text!r}", hint)

    def _error(self, node: yaml.Node, problem: str, hint: str = "") -> DocumentError:
        mark = node.start_mark
        return self.error(self.source, mark.line + 1, mark.column + 1, problem, hint)

    def _mend(self, line: int) -> str:
        """What YAML's own message does not say: it is a tab, which nobody sees; or an @ that it reserves."""
        return tab_hint(self.lines, line) or self._quoting(line)

    def _quoting(self, line: int) -> str:
        """A hint that shows the line with its bare @names quoted."""
        text = self.lines[line - 1] if 0 < line <= len(self.lines) else ""
        if "[" in text:
            quoted = re.sub(r"""(?<![\w"'@/])@[\w/-]+""", lambda m: f'"{m[0]}"', text)
        else:
            quoted = re.sub(r"""(?<=[:-]\s)\s*(@[^#"']*?)\s*(?=#|$)""", lambda m: f'"{m[1]}" ', text)
        return f"write `{quoted.strip()}`" if quoted != text else f"{self.page} shows the grammar"


def shape(node: yaml.Node) -> str:
    """What a node is, in words."""
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    if isinstance(node, yaml.MappingNode):
        return "a map"
    return "nothing" if is_null(node) else "a text"


def is_null(node: yaml.Node) -> bool:
    """Whether a node is an empty value."""
    return isinstance(node, yaml.ScalarNode) and node.tag == _NULL
