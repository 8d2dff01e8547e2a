"""Where things stand in a YAML text, by the marks of its parser, and how a line of it is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

WIDTH = 10**6


def entry_lines(dash: int, name: str, pairs: Sequence[tuple[str, str]], more: Sequence[str] = ()) -> list[str]:
    """A new entry for one name, its dash in the column ``dash``; ``more``: lines as they are, below its keys."""
    key = " " * (dash + 2)
    return [
        f"{' ' * dash}- names: [{scalar(name)}]",
        *(f"{key}{k}: {scalar(value)}" for k, value in pairs),
        *(key + line for line in more),
    ]


def get(node: Node | None, key: str) -> Node | None:
    """The value of a map's key."""
    for k, value in node.value if isinstance(node, MappingNode) else ():
        if isinstance(k, ScalarNode) and k.value == key:
            found: Node = value
            return found
    return None


def scalars(node: Node | None) -> Iterator[ScalarNode]:
    """Every scalar below a node."""
    if isinstance(node, ScalarNode):
        yield node
    elif isinstance(node, SequenceNode | MappingNode):
        for item in node.value:
            for part in item if isinstance(item, tuple) else (item,):
                yield from scalars(part)


def last_line(node: Node) -> int:
    """The last line (0-based) that belongs to a node: collections end where the next thing begins, after comments."""
    if isinstance(node, ScalarNode):
        end = node.end_mark
        return int(end.line - 1 if node.style in ("|", ">") and end.column == 0 else end.line)
    if not isinstance(node, SequenceNode | MappingNode) or node.flow_style:
        return int(node.end_mark.line)
    parts = [part for item in node.value for part in (item if isinstance(item, tuple) else (item,))]
    return max((last_line(part) for part in parts), default=int(node.start_mark.line))


def dash_of(text: str, node: Node) -> int:
    """The column of the dash in front of an item of a block list."""
    start = node.start_mark
    line = text[start.index - start.column : start.index]
    return line.rindex("-") if "-" in line else max(start.column - 2, 0)


def scalar(value: str) -> str:
    """A text as YAML on one line, quoted where it must be."""
    flat = " ".join(value.split())
    written: str = yaml.safe_dump(flat, allow_unicode=True, width=WIDTH)
    return written.removesuffix("\n").removesuffix("...").removesuffix("\n").rstrip()
