"""The pages of upgrades: nights and pairs with their trend, one pair with filters; JSON twins, and Markdown."""

from __future__ import annotations

import itertools
import time
from dataclasses import asdict
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse, PlainTextResponse

from relay.errors import BadRequest
from relay.store import views_upgrade
from relay.store.db import reading
from relay.store.upgrade_changes import Wanted
from relay.upgrade_report import markdown
from relay.web.page_route import PageRoute
from relay.web.pages_render import render
from selector.discover.diff.compare import KINDS
from selector.verify.upgrade import STANDINGS

Map = dict[str, Any]
ONLY = ("evaluate", "relevant", "left", *STANDINGS)
router = APIRouter(route_class=PageRoute, include_in_schema=False)


class Filter:
    """The query string of a pair's page."""

    def __init__(
        self, kind: str = "", find: str = "", only: str = "", page: Annotated[int, Query(ge=1, le=100_000)] = 1
    ) -> None:
        if kind and kind not in KINDS:
            raise BadRequest(f"kind: {kind!r} is none", f"one of {', '.join(KINDS)}")
        if only and only not in ONLY:
            raise BadRequest(f"only: {only!r} is none", f"one of {', '.join(ONLY)}")
        self.wanted = Wanted(kind or None, find[:200], only or None)
        self.page = page

    def given(self) -> Map:
        found = {**asdict(self.wanted), "page": self.page}
        return {k: v for k, v in found.items() if v and (k, v) != ("page", 1)}


def list_data(request: Request) -> Map:
    state = request.app.state
    with reading(state.engine) as conn:
        found = views_upgrade.trend(conn, state.settings.device)
    settings = state.settings
    known = {"now": time.time(), "ref": settings.nightly_ref, "device": settings.device}
    return {**known, "sentence": nights_sentence(found["nights"]), **found}


def nights_sentence(nights: list[Map]) -> str:
    """How the newest night that was judged came out, since when it is so, and which was the last good one.
    ``nights``: newest first."""
    judged = [night for night in nights if night["good"] is not None]
    if not judged:
        return "No night has been judged yet"
    if judged[0]["good"]:
        return f"The newest night is good: {judged[0]['night']}"
    bad = list(itertools.takewhile(lambda night: not night["good"], judged))
    last = f"; {judged[len(bad)]['night']} was the last good one" if len(judged) > len(bad) else ""
    since = f", as are the {len(bad) - 1} before it" if len(bad) > 2 else ", as is the one before it" if bad[1:] else ""
    return f"The newest night is regressed, {judged[0]['night']}{since}{last}"


@router.get("/upgrade.json")
def list_json(request: Request) -> Map:
    return list_data(request)


@router.get("/upgrade", response_class=HTMLResponse)
def list_page(request: Request) -> str:
    data = list_data(request)
    evaluated = [n for n in reversed(data["nights"]) if n["totals"]]
    line = _line([n["totals"]["relevant"] for n in evaluated])
    return render(request, "upgrades.html", page_title="Upgrades", twin="/upgrade.json", line=line, **data)


def pair_data(request: Request, pair: str, query: Filter) -> Map:
    with reading(request.app.state.engine) as conn:
        return views_upgrade.pair(conn, pair, query.wanted, query.page)


@router.get("/upgrade/{pair:path}.json")
def pair_json(request: Request, pair: str, query: Annotated[Filter, Depends()]) -> Map:
    return pair_data(request, pair, query)


@router.get("/upgrade/{pair:path}.md", response_class=PlainTextResponse)
def pair_markdown(request: Request, pair: str) -> PlainTextResponse:
    with reading(request.app.state.engine) as conn:
        text = markdown(views_upgrade.report(conn, pair))
    return PlainTextResponse(text, media_type="text/markdown; charset=utf-8")


@router.get("/upgrade/{pair:path}", response_class=HTMLResponse)
def pair_page(request: Request, pair: str, query: Annotated[Filter, Depends()]) -> str:
    data = pair_data(request, pair, query)
    at = f"/upgrade/{quote(pair)}"
    return render(
        request,
        "upgrade.html",
        page_title=f"{data['report']['from']} to {data['report']['to']}",
        twin=f"{at}.json",
        at=at,
        query=query.given(),
        kinds=KINDS,
        onlys=ONLY,
        line=_line([point["left"] for point in data["burn_down"]]),
        now=time.time(),
        u=data,
    )


def _line(values: list[int]) -> str:
    """Points of a polyline in a box of 100 by 20, the first value at the left, the largest at the top."""
    if len(values) < 2:
        return ""
    most = max(*values, 1)
    return " ".join(f"{100 * n / (len(values) - 1):.2f},{19 - 18 * v / most:.2f}" for n, v in enumerate(values))
