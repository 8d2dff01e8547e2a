"""What somebody means by what they typed into the search box. Pure: from text to look-ups."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

MOST = 500
"""Characters of a query that are read."""
_REPO = r"[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+"
_PULL = re.compile(rf"(?:(?P<repo>{_REPO}))?#(?P<number>[0-9]{{1,9}})")
_HEX = re.compile(r"[0-9a-f]{7,40}")


@dataclass(frozen=True, slots=True)
class Query:
    """Look-ups that a text asks for, each empty where it does not. ``number``: of a pull request, with ``repo`` where
    it was named; ``sha``: how a commit begins; ``run``: a run's id; ``test``: how any part of a test's name begins,
    ``whole_test`` when it is a whole one; ``word``: what a downstream's name has in it, case folded."""

    text: str = ""
    number: int | None = None
    repo: str = ""
    sha: str = ""
    run: str = ""
    test: str = ""
    whole_test: bool = False
    word: str = ""


def understand(text: str) -> Query:
    """``171234``, ``#171234``, ``owner/repo#12``, an address on GitHub or on our own pages, a commit's first 7 or more
    characters, a run's id, a test's name or part of it, a part of a repository's name."""
    text = " ".join("".join(c for c in text[:MOST] if c.isprintable() or c.isspace()).split())
    if text.startswith(("https://", "http://")):
        return _address(text)
    if pull := _PULL.fullmatch(text):
        return Query(text, number=int(pull["number"]), repo=pull["repo"] or "")
    lower = text.casefold()
    number = int(text) if text.isascii() and text.isdecimal() and len(text) <= 9 else None
    sha = lower if _HEX.fullmatch(lower) else ""
    run = lower if re.fullmatch(r"[0-9a-f]{32}", lower) else ""
    spaced = " " in text
    return Query(
        text,
        number=number,
        sha=sha,
        run=run,
        test="" if spaced or len(text) < 3 else text,
        whole_test=text.count("::") == 2 and not spaced,
        word="" if spaced or len(text) < 2 else lower,
    )


def _address(text: str) -> Query:
    try:
        path = unquote(urlsplit(text).path).strip("/")
    except ValueError:
        return Query(text)
    if found := re.search(rf"(?P<repo>{_REPO})/(?:pull|pulls)/(?P<number>[0-9]{{1,9}})\b", path):
        return Query(text, number=int(found["number"]), repo=found["repo"])
    if found := re.search(r"(?:^|/)commits?/(?P<sha>[0-9a-f]{7,40})\b", path):
        return Query(text, sha=found["sha"])
    if found := re.search(r"(?:^|/)pr/(?P<number>[0-9]{1,9})$", path):
        return Query(text, number=int(found["number"]))
    if found := re.search(r"(?:^|/)run/(?P<run>[0-9a-f]{32})\b", path):
        return Query(text, run=found["run"])
    if found := re.search(r"(?:^|/)test/(?P<test>.+::.+::.+)$", path):
        return Query(text, test=found["test"], whole_test=True)
    if found := re.fullmatch(rf"(?P<repo>{_REPO})(?:/.*)?", path):
        return Query(text, word=found["repo"].casefold())
    return Query(text)
