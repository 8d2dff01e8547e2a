"""What must not leave: secrets that are known, and text that looks like one. Scrubbed before it becomes a prompt."""

from __future__ import annotations

import re
from collections.abc import Iterable

HIDDEN = "[secret removed]"
SHORTEST = 6
"""characters of a known secret below which it is no secret but a word"""
CUT = "\n[... {n} characters left out ...]\n"

_LOOKS_LIKE = tuple(
    re.compile(pattern)
    for pattern in (
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
        r"\bgh[pousr]_[A-Za-z0-9]{20,}\b",
        r"\bgithub_pat_[A-Za-z0-9_]{20,}\b",
        r"\bglpat-[A-Za-z0-9_-]{16,}",
        r"\bsk-[A-Za-z0-9_-]{16,}",
        r"\bxox[abprs]-[A-Za-z0-9-]{10,}",
        r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
        r"\bAIza[A-Za-z0-9_-]{30,}",
        r"\bhf_[A-Za-z0-9]{20,}\b",
        r"\bpypi-[A-Za-z0-9_-]{20,}",
        r"\beyJ[A-Za-z0-9_-]{8,2000}\.[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{0,4000}",
    )
)
# what stands behind a word that announces a secret: the word stays, so that the text can still be understood
_ANNOUNCED = re.compile(
    r"""(?ix)
    ( (?: password|passwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key )
      ["']? [ \t]{0,8} (?: = | :\s ) [ \t]{0,8} ["']? | \b(?:bearer|basic)[ \t]{1,8} | ://[^/\s:@]{1,100}: )
    ( (?=[^\s"']{0,500}[0-9]) [A-Za-z0-9+/_.~=-]{12,500} | (?<=:) [^\s@/"']{6,200} (?=@) )
    """
)


class Scrubber:
    """Takes secrets out of text. ``known``: values that this process holds; they are found anywhere, in any text."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        values = {line.strip() for value in known for line in (value, *value.splitlines())}
        self._known = sorted((v for v in values if len(v) >= SHORTEST), key=len, reverse=True)

    def __repr__(self) -> str:
        return f"Scrubber({len(self._known)} known)"

    def __call__(self, text: str) -> str:
        """The text without secrets; text without any comes back as it is."""
        for value in self._known:
            text = text.replace(value, HIDDEN)
        for pattern in _LOOKS_LIKE:
            text = pattern.sub(HIDDEN, text)
        return _ANNOUNCED.sub(lambda found: found[1] + HIDDEN, text)

    def value(self, value: object) -> object:
        """The same for every string, at any depth, of plain JSON values."""
        if isinstance(value, str):
            return self(value)
        if isinstance(value, dict):
            return {self.value(key): self.value(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(item) for item in value]
        return value


def cut(text: str, most: int) -> str:
    """At most about ``most`` characters: the head and the tail, and how much is left out between them."""
    if len(text) <= most:
        return text
    half = most // 2
    return text[:half] + CUT.format(n=len(text) - 2 * half) + text[-half:]
