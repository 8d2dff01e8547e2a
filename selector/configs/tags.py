"""Tag expressions: ``model__granite-3.3 and not (slow or "needs care")``. Tags are any words, unlike pytest's marks."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from selector.errors import SelectorError

_TOKEN = re.compile(r"\s*(?:(?P<quoted>\"[^\"]*\"|'[^']*')|(?P<bracket>[()])|(?P<word>[^\s()\"']+))")
Wanted = Callable[[Collection[str]], bool]


class TagExpressionError(SelectorError):
    """A tag expression that cannot be read."""

    code = "tags-invalid"


def parse_tags(text: str) -> Wanted:
    """A predicate over a test's tags. Raises TagExpressionError that shows where the expression breaks."""
    tokens: list[tuple[str, bool]] = []
    at = 0
    while at < len(text.rstrip()):
        found = _TOKEN.match(text, at)
        if found is None:
            raise TagExpressionError(f"cannot read the tag expression at {text[at:]!r}", "close the quotes")
        quoted = found["quoted"]
        tokens.append((quoted[1:-1], True) if quoted is not None else (found["bracket"] or found["word"], False))
        at = found.end()
    reader = _Reader(text, tokens)
    wanted = reader.either()
    if reader.rest:
        raise TagExpressionError(f"the tag expression goes on after its end: {reader.rest!r}", "join with and, or")
    return wanted


class _Reader:
    def __init__(self, text: str, tokens: list[tuple[str, bool]]) -> None:
        self._text, self._tokens, self._at = text, tokens, 0

    @property
    def rest(self) -> str:
        return " ".join(word for word, _ in self._tokens[self._at :])

    def _take(self, word: str) -> bool:
        if self._at < len(self._tokens) and self._tokens[self._at] == (word, False):
            self._at += 1
            return True
        return False

    def either(self) -> Wanted:
        parts = [self._both()]
        while self._take("or"):
            parts.append(self._both())
        return lambda tags: any(part(tags) for part in parts)

    def _both(self) -> Wanted:
        parts = [self._one()]
        while self._take("and"):
            parts.append(self._one())
        return lambda tags: all(part(tags) for part in parts)

    def _one(self) -> Wanted:
        if self._take("not"):
            inner = self._one()
            return lambda tags: not inner(tags)
        if self._take("("):
            inner = self.either()
            if not self._take(")"):
                raise TagExpressionError(f"a bracket is not closed in {self._text!r}")
            return inner
        if self._at >= len(self._tokens):
            raise TagExpressionError(f"the tag expression {self._text!r} ends too early", "name a tag")
        word, quoted = self._tokens[self._at]
        if not quoted and word in (")", "and", "or"):
            raise TagExpressionError(f"{word!r} where a tag is expected in {self._text!r}", "quote it if it is a tag")
        self._at += 1
        return lambda tags: word in tags
