"""Jinja2 for the pages: autoescape on, undefined names are errors, filters of pages_text."""

from __future__ import annotations

import re
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from fastapi import Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from relay.domain.providers import BUILT_IN
from relay.domain.words import plural
from relay.settings import Settings, pages_of
from relay.web import pages_gantt, pages_pictures, pages_sentences, sessions
from relay.web import pages_text as text
from relay.web.pages_headers import nonce_of
from relay.web.pages_static import static_url
from relay.web.viewers import viewer_of

TEMPLATES = Path(__file__).with_name("templates")
REPO = re.compile(r"^[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+$")
FEEDS = re.compile(r"/pr/[0-9]+|/crcr/[^/]+/[^/]+")
"""Pages that have an Atom feed, at their address with .atom behind it."""
ABOUT = "Tells out-of-tree PyTorch accelerators whether an upstream change breaks them."

_nonce: ContextVar[str] = ContextVar("nonce")
"""Of the page that is being rendered: macros have no context."""
_hosts: ContextVar[frozenset[str]] = ContextVar("hosts")
"""To which it may link on somebody's word."""


@cache
def environment() -> Environment:
    env = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.globals.update(
        nonce=_nonce.get, static_url=static_url, chip_of=text.chip, standing=text.standing, with_query=with_query
    )
    env.globals.update(gantt=pages_gantt.gantt, parts_of_time=pages_gantt.parts_of_time, kind_says=text.KIND_SAYS)
    env.globals.update(spark=pages_pictures.spark, strip=pages_pictures.strip)
    env.globals.update(sides=text.SIDES, changed=text.CHANGED, stands=text.STANDS)
    env.globals.update(card_says=text.CARD_SAYS, pr_word=pages_sentences.pr_word)
    env.tests["in_a_row"] = pages_sentences.in_a_row
    env.filters.update(
        duration=text.duration,
        rough=text.rough,
        micros=text.micros,
        size=text.size,
        metered=text.metered,
        stamp=text.stamp,
        iso=text.iso,
        number=text.number,
        plural=plural,
        short=text.short,
        tag=text.tag,
        https=text.https,
        known=lambda url: text.known(url, _hosts.get()),
        test_href=text.test_href,
        ago=text.ago,
        breaks=text.breaks,
    )
    return env


def render(request: Request, template: str, **values: Any) -> str:
    """The template with ``values``, and what every page has: ``page_title``; ``twin`` and ``feed`` (addresses of the
    JSON twin and the Atom feed, or None); ``description`` for cards (default: the page's sentence); ``viewer`` (None,
    or relay.domain.access.Viewer); ``nonce``, which every element with an ``hx-`` attribute names as ``hx-nonce``."""
    values.setdefault("twin", None)
    path = request.url.path
    values.setdefault("feed", f"{path}.atom" if FEEDS.fullmatch(path) and template != "error.html" else None)
    values.setdefault("description", values.get("sentence") or ABOUT)
    settings = request.app.state.settings
    values["viewer"] = viewer_of(request)
    values["said"] = sessions.said(request)
    values["signing_in"] = settings.signing_in
    values["swapped"] = any(name in request.headers for name in ("hx-request", "hx-history-restore-request"))
    values["origin"] = settings.url
    values["canonical"] = settings.url + request.url.path
    return _render(request, template, nonce_of(request), values)


def link_hosts(settings: Settings) -> frozenset[str]:
    """Hosts to which a page may link on the word of somebody's report: our own, GitHub, the CI providers', and those
    that the operator names."""
    ours = [settings.url, settings.github_url, settings.hud_url, settings.artifacts_url]
    theirs = [row.page for row in BUILT_IN.rows.values()] + [one.issuer for one in settings.oidc_issuers]
    named = {host.casefold() for host in settings.link_hosts}
    return frozenset(host for url in ours + theirs if (host := urlsplit(url).hostname)) | named


def render_shared(request: Request, template: str, **values: Any) -> str:
    """A piece of a page that many viewers get alike, by an event stream: it knows no viewer, and htmx takes no
    ``hx-`` attribute from it."""
    return _render(request, template, "", {**values, "viewer": None})


def _render(request: Request, template: str, nonce: str, values: dict[str, Any]) -> str:
    values["github"] = github_links(request.app.state.settings.github_api_url)
    values["here"] = request.url.path
    token, hosts = _nonce.set(nonce), _hosts.set(link_hosts(request.app.state.settings))
    try:
        return environment().get_template(template).render(**values)
    finally:
        _nonce.reset(token)
        _hosts.reset(hosts)


class github_links:
    """Addresses of GitHub's pages; none of them when the relay talks to one whose pages we do not know."""

    def __init__(self, api_url: str) -> None:
        self.pages = pages_of(api_url)

    def repo(self, name: str | None) -> str | None:
        return f"{self.pages}/{name}" if self.pages and name and REPO.match(name) else None

    def pull(self, name: str, number: int | None) -> str | None:
        repo = self.repo(name)
        return f"{repo}/pull/{number}" if repo and number is not None else None

    def commit(self, name: str, sha: str | None) -> str | None:
        repo = self.repo(name)
        return f"{repo}/commit/{sha}" if repo and sha and re.fullmatch(r"[0-9a-f]{7,40}", sha) else None


def with_query(path: str, query: dict[str, Any], **changes: Any) -> str:
    """``path`` with the query string ``query`` after ``changes``; what is at its default (None) is left away."""
    merged = {k: v for k, v in {**query, **changes}.items() if v is not None}
    return f"{path}?{urlencode(merged, doseq=True)}" if merged else path
