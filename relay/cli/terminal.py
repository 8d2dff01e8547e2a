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
    """Rich's console, whose texts hold no control character of their own: what a test prints, or a change calls its
    files, is a stranger's. Styles and links are rich's, and stay."""

    def render(self, renderable: Any, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(inert(segment.text), segment.style)
