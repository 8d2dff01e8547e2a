"""Log lines with terminal colours, as text with classes. Pure; the template escapes every character that is shown.

Only colours and weights (SGR) mean something here. Every other control sequence, among them those that would move a
terminal's cursor, set its title or make a link, is left out; other control characters show as a dot.
"""

from __future__ import annotations

import re

LONGEST = 4000
"""Characters of a line that are shown; a test may print a tensor in one line."""
_SEQUENCE = re.compile(
    r"\x1b\[([0-9;:]*)m"  # 1: colours and weights
    r"|\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"
    r"|\x1b[ -/]*[0-~]?"
)
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
Span = tuple[str, str]
"""Classes (``a1 f31``; "" for plain) and text."""


class Painter:
    """Lines in order: a colour lasts until it is taken back, over ends of lines too."""

    def __init__(self) -> None:
        self._weight: set[int] = set()
        self._colour = 0

    def line(self, text: str) -> list[Span]:
        """The spans of one line, without its end. What a carriage return went back over is left out."""
        text = text.rstrip("\r")
        cut = len(text) - LONGEST
        if cut > 0:
            text = text[:LONGEST]
        spans: list[Span] = []
        position = 0
        for match in _SEQUENCE.finditer(text):
            self._add(spans, text[position : match.start()])
            position = match.end()
            if match[1] is not None:
                self._set(match[1])
        self._add(spans, text[position:])
        if cut > 0:
            spans.append(("a2", f" … {cut:,} more characters"))
        return spans

    def _add(self, spans: list[Span], text: str) -> None:
        if not text:
            return
        words = [f"a{n}" for n in sorted(self._weight)] + ([f"f{self._colour}"] if self._colour else [])
        spans.append((" ".join(words), _CONTROL.sub("·", text.rpartition("\r")[2])))

    def _set(self, codes: str) -> None:
        numbers = [int(code) if code.isdigit() else 0 for code in re.split("[;:]", codes)[:16]]
        skip = 0
        for n in numbers:
            if skip:
                skip -= 1
            elif n == 0:
                self._weight, self._colour = set(), 0
            elif 1 <= n <= 4:
                self._weight.add(n)
            elif n == 22:
                self._weight -= {1, 2}
            elif n in (23, 24):
                self._weight.discard(n - 20)
            elif 30 <= n <= 37 or 90 <= n <= 97:
                self._colour = n
            elif n == 39:
                self._colour = 0
            elif n in (38, 48):
                skip = 4  # an exact colour: not one of ours
