"""``Depends-On: owner/repo#12`` in a pull request's text: test against that pull request of the downstream. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from relay.domain.fields import is_sha

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


def text_of(event: object) -> str:
    """The text of the pull request in a webhook's body, where it may name another one."""
    pull = event.get("pull_request") if isinstance(event, dict) else None
    text = pull.get("body") if isinstance(pull, dict) else None
    return text if isinstance(text, str) and "depends-on:" in text.casefold() else ""


def head_of(pull: object) -> dict[str, str] | None:
    """What is pinned of a pull request as GitHub's API shows it: {sha, state}; None where it shows none."""
    head = pull.get("head") if isinstance(pull, dict) else None
    sha = head.get("sha") if isinstance(head, dict) else None
    if not isinstance(pull, dict) or not isinstance(sha, str) or not is_sha(sha):
        return None
    return {"sha": sha, "state": str(pull.get("state"))}


def not_trusted(author: str | None, repo: str) -> str:
    """Why a pull request is not followed: its code, or what it says of the device, would be run for a stranger."""
    return f"{author or 'the author'} is not trusted by {repo}"


NOT_THERE = "there is no such pull request"


def sentence(pin: Mapping[str, Any] | None) -> str:
    """What a check run says about a pin, as plain text; "" without one."""
    if not pin:
        return ""
    name = f"{pin['repo']}#{pin['number']}"
    if pin.get("sha"):
        return f"Depends-On: with {name} at {str(pin['sha'])[:10]}."
    return f"Depends-On: without {name}: {pin.get('problem')}."


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
