"""YAML values that know where they were written: what the models of the format are validated from.

Python's own types, subclassed: pydantic takes a ``Map`` for a dict and a ``Text`` for a str, and what it finds wrong is
looked up again by its ``loc``. Booleans and nulls cannot be subclassed; their place is known to the map or list
around them.
"""

from __future__ import annotations

from typing import Any

from yaml.nodes import Node

from selector.configs.model import Place


class Map(dict[str, Any]):
    """A map; ``nodes`` are the key and the value node of each key, those that ``<<`` merged in among them."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place = place
        self.nodes: dict[str, tuple[Node, Node]] = {}


class Seq(list[Any]):
    """A list, with the node of each item."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place = place
        self.nodes: list[Node] = []


class Text(str):
    """A string, or a date, which the format reads by its characters."""

    __slots__ = ("place",)
    place: Place


class Whole(int):
    """A whole number; ``raw`` are its characters as written."""

    place: Place
    raw: str


class Real(float):
    """A number; ``raw`` are its characters as written (``2.10`` is a version and not ``2.1``)."""

    place: Place
    raw: str


def as_written(value: Any) -> Any:
    """The characters of a scalar as written; anything else as it is."""
    if isinstance(value, Whole | Real):
        text = Text(value.raw)
        text.place = value.place
        return text
    return str(value).lower() if isinstance(value, bool) else value


def plain(value: Any) -> Any:
    """The value as Python's own types alone."""
    if isinstance(value, Map):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, Seq):
        return [plain(item) for item in value]
    if isinstance(value, Text):
        return str(value)
    if isinstance(value, Whole):
        return int(value)
    return float(value) if isinstance(value, Real) else value
