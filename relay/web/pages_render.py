"""Jinja2 for the pages: autoescape on, undefined names are errors, filters of pages_text."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fastapi import Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from relay.web import pages_text as text
from relay.web.pages_static import static_url

TEMPLATES = Path(__file__).with_name("templates")
REPO = re.compile(r"^[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+$")
GITHUB_API = "https://api.github.com"


@cache
def environment() -> Environment:
    env = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.globals.update(static_url=static_url, chip_of=text.chip, standing=text.standing, with_query=with_query)
    env.filters.update(
        duration=text.duration,
        micros=text.micros,
        size=text.size,
        metered=text.metered,
        stamp=text.stamp,
        iso=text.iso,
        number=text.number,
        plural=text.plural,
        short=text.short,
        https=text.https,
        test_href=text.test_href,
        ago=text.ago,
    )
    return env


def render(request: Request, template: str, **values: Any) -> str:
    """The template with ``values``, and what every page has: page_title, twin (address of the JSON twin, or none)."""
    settings = request.app.state.settings
    values.setdefault("twin", None)
    values["github"] = github_links(settings.github_api_url)
    values["here"] = request.url.path
    return environment().get_template(template).render(**values)


class github_links:
    """Addresses on github.com; none of them when the relay talks to another GitHub, whose pages we do not know."""

    def __init__(self, api_url: str) -> None:
        self.known = api_url.rstrip("/") == GITHUB_API

    def repo(self, name: str | None) -> str | None:
        return f"https://github.com/{name}" if self.known and name and REPO.match(name) else None

    def pull(self, name: str, number: int | None) -> str | None:
        repo = self.repo(name)
        return f"{repo}/pull/{number}" if repo and number is not None else None

    def commit(self, name: str, sha: str | None) -> str | None:
        repo = self.repo(name)
        return f"{repo}/commit/{sha}" if repo and sha and re.fullmatch(r"[0-9a-f]{7,40}", sha) else None


def with_query(path: str, query: dict[str, Any], **changes: Any) -> str:
    """``path`` with the query string ``query`` after ``changes``; what is at its default (None) is left away."""
    merged = {k: v for k, v in {**query, **changes}.items() if v is not None}
    return f"{path}?{urlencode(merged)}" if merged else path
