"""``Depends-On: owner/repo#12`` in a pull request's text: test against that pull request of the downstream. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_LINES = 20
GITHUB = "https://github.com"
_LINE = (
    r"^[ \t>*-]*depends-on:[ \t]*"
    r"(?:{pages}/)?(?P<repo>[A-Za-z0-9][A-Za-z0-9_-]{{0,99}}/[A-Za-z0-9._-]{{1,100}}?)"
    r"(?:#|/pull/)(?P<number>[1-9][0-9]{{0,8}})(?![0-9])"
)


@dataclass(frozen=True, slots=True)
class Dependency:
    """A pull request of another repository, as it was written."""

    repo: str
    number: int


def dependencies(text: str, pages: str = GITHUB) -> tuple[Dependency, ...]:
    """Those that ``text`` names, in its order; of several for one repository the first counts. ``pages``: where the
    pages of pull requests are that may be written as addresses."""
    line = re.compile(_LINE.format(pages=re.escape(pages)), re.IGNORECASE | re.MULTILINE)
    found: dict[str, Dependency] = {}
    for match in line.finditer(text):
        one = Dependency(match["repo"], int(match["number"]))
        found.setdefault(one.repo.casefold(), one)
        if len(found) == MAX_LINES:
            break
    return tuple(found.values())


def of_repository(text: str, names: set[str], pages: str = GITHUB) -> Dependency | None:
    """The one for the repository that has (had) these names, case folded."""
    return next((one for one in dependencies(text, pages) if one.repo.casefold() in names), None)
