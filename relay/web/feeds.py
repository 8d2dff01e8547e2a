"""Badges (SVG) and Atom feeds, of a backend and of a pull request. They are made to be read from elsewhere."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from relay.errors import BadRequest
from relay.store import views_feeds
from relay.store.db import reading
from relay.web.page_route import PageRoute
from relay.web.pages_text import chip, iso

router = APIRouter(route_class=PageRoute, include_in_schema=False)
ATOM = "http://www.w3.org/2005/Atom"
KEEP_S = 60
ELSEWHERE = {"Cross-Origin-Resource-Policy": "cross-origin", "Cache-Control": f"public, max-age={KEEP_S}"}
COLOURS = {"good": "#1a7f45", "bad": "#b3261e", "warn": "#8a5a00", "live": "#2f5fd0", "mute": "#5b6070"}
ADVANCE = {**dict.fromkeys("ijlI.,:;'|!()[] ", 3.7), **dict.fromkeys("mwMW@%", 9.6), **dict.fromkeys("ftr-/", 4.6)}
"""Widths of letters at 11 px in the usual sans faces, where they differ from 6.6."""

Event = Annotated[str | None, Query(max_length=64)]
Upstream = Annotated[str | None, Query(max_length=255)]


@router.get("/badge/pr/{number}.svg")
def pull_badge(request: Request, number: str, upstream: Upstream = None) -> Response:
    runs = _of_pull(request, number, upstream)
    sha = runs[0]["head_sha"] if runs else None
    words = {run["conclusion"] for run in reversed(runs) if run["head_sha"] == sha}
    worst = next((word for word in ("failure", "neutral", "success") if word in words), None)
    return _badge(request, f"PR {int(number)}", worst)


@router.get("/badge/{owner}/{repo}.svg")
def backend_badge(request: Request, owner: str, repo: str, event: Event = None) -> Response:
    """``event``: of runs of one kind of event alone, as push or nightly."""
    with reading(request.app.state.engine) as conn:
        runs = views_feeds.of_downstream(conn, f"{owner}/{repo}", event=event)
    return _badge(request, repo, runs[0]["conclusion"] if runs else None)


@router.get("/crcr/{owner}/{repo}.atom")
def backend_feed(request: Request, owner: str, repo: str) -> Response:
    with reading(request.app.state.engine) as conn:
        runs = views_feeds.of_downstream(conn, f"{owner}/{repo}")
    name = runs[0]["downstream"] if runs else f"{owner}/{repo}"
    return _feed(request, f"{name} on upstream's changes", f"/crcr/{name}", runs)


@router.get("/pr/{number}.atom")
def pull_feed(request: Request, number: str, upstream: Upstream = None) -> Response:
    runs = _of_pull(request, number, upstream)
    name = runs[0]["upstream"] if runs else upstream or request.app.state.settings.upstream_repo
    return _feed(request, f"{name} #{int(number)} on its backends", f"/pr/{int(number)}", runs)


def _of_pull(request: Request, number: str, upstream: str | None) -> list[dict[str, Any]]:
    if not re.fullmatch(r"[0-9]{1,9}", number):
        raise BadRequest(f"{number!r} is not the number of a pull request", "the address has its digits")
    with reading(request.app.state.engine) as conn:
        return views_feeds.of_pull(conn, int(number), upstream)


# --- badges


def badge(left: str, word: str | None) -> bytes:
    """A badge that says how something stands: ``word`` is a conclusion, None: not known."""
    kind, sign, label = chip(word) if word else ("mute", "–", "unknown")
    left, right = _shown(left, 40), f"{sign} {label}"
    widths = [round(sum(ADVANCE.get(c, 6.6) for c in part) + 14) for part in (left, right)]
    whole = sum(widths)
    svg = ET.Element("svg", xmlns="http://www.w3.org/2000/svg", width=str(whole), height="20", role="img")
    svg.set("aria-label", f"{left}: {label}")
    ET.SubElement(svg, "title").text = f"{left}: {label}"
    box = {"height": "20", "y": "0"}
    ET.SubElement(svg, "rect", box, width=str(whole), fill="#33373f", rx="4")
    ET.SubElement(svg, "path", d=f"M{widths[0]} 0h{widths[1] - 4}a4 4 0 0 1 4 4v12a4 4 0 0 1-4 4h-{widths[1] - 4}z",
                  fill=COLOURS[kind])  # fmt: skip
    face = {"fill": "#fff", "font-family": "Verdana,DejaVu Sans,sans-serif", "font-size": "11", "y": "14"}
    for text, x, width in ((left, 7, widths[0]), (right, widths[0] + 7, widths[1])):
        ET.SubElement(svg, "text", face, x=str(x), textLength=str(width - 14)).text = text
    return bytes(ET.tostring(svg, encoding="utf-8", xml_declaration=False))


def _badge(request: Request, left: str, word: str | None) -> Response:
    headers = dict(ELSEWHERE) if not request.app.state.settings.pages_private else {"Cache-Control": "private"}
    return Response(badge(left, word), media_type="image/svg+xml", headers=headers)


# --- feeds


def _feed(request: Request, title: str, path: str, runs: Sequence[dict[str, Any]]) -> Response:
    base = request.app.state.settings.url
    feed = ET.Element("feed", xmlns=ATOM)
    _add(feed, "title", title)
    _add(feed, "id", f"{base}{path}")
    ET.SubElement(feed, "link", rel="alternate", type="text/html", href=f"{base}{path}")
    ET.SubElement(feed, "link", rel="self", type="application/atom+xml", href=f"{base}{path}.atom")
    _add(feed, "updated", iso(max((run["closed_at"] for run in runs), default=0.0)))
    _add(ET.SubElement(feed, "author"), "name", "CI relay")
    for run in runs:
        entry = ET.SubElement(feed, "entry")
        about = f"#{run['pr_number']} {run['pr_title'] or ''}".strip() if run["pr_number"] else run["head_sha"][:10]
        label = chip(run["conclusion"])[2]
        _add(entry, "title", f"{label}: {run['downstream']} on {about}")
        # an id of its own for ever: a rerun is another run
        _add(entry, "id", f"urn:crcr-relay:run:{run['id']}")
        ET.SubElement(entry, "link", rel="alternate", type="text/html", href=f"{base}/run/{run['id']}")
        _add(entry, "published", iso(run["created_at"]))
        _add(entry, "updated", iso(run["closed_at"]))
        _add(entry, "summary", run["summary"] or label).set("type", "text")
        for term in (run["conclusion"], run["code"]):
            if term:
                ET.SubElement(entry, "category", term=_shown(term, 100))
    headers = {"Cache-Control": "private" if request.app.state.settings.pages_private else f"public, max-age={KEEP_S}"}
    body = ET.tostring(feed, encoding="utf-8", xml_declaration=True)
    return Response(body, media_type="application/atom+xml", headers=headers)


def _add(parent: ET.Element, tag: str, text: str) -> ET.Element:
    child = ET.SubElement(parent, tag)
    child.text = _shown(text, 1000)
    return child


def _shown(text: str, most: int) -> str:
    """Without what XML cannot hold, control characters and lone halves of pairs among it."""
    return re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "", text)[:most]
