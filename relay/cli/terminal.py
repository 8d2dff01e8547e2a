"""What is written to a terminal: texts of changes and of tests are shown, and cannot steer it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions
from rich.segment import Segment


def inert(text: str) -> str:
    """The text, control characters but ends of lines and tabs replaced."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text)


class Terminal(Console):
    """Rich's console for texts that are a stranger's: what a test prints, a change calls its files, a config says. They
    are shown letter by letter: no ``[word]`` of theirs is markup, no ``:100:`` a picture, nothing in them a number to
    colour, and control characters are replaced. Styles are given as such (``style=``, ``rich.text.Text``)."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"markup": False, "emoji": False, "highlight": False, **options})

    def render(self, renderable: Any, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(inert(segment.text), segment.style)
