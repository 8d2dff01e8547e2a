"""The one search box. What can mean one thing alone leads there at once."""

from __future__ import annotations

import time
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from relay.domain.search import understand
from relay.domain.words import plural
from relay.store import views_search
from relay.store.db import reading
from relay.web.page_route import PageRoute
from relay.web.pages_render import render
from relay.web.pages_text import tag, test_href

router = APIRouter(route_class=PageRoute, include_in_schema=False)
Text = Annotated[str, Query(max_length=2000)]
KINDS = {"runs": "run", "pulls": "pull request", "commits": "commit", "tests": "test", "downstreams": "backend"}


def search_data(request: Request, q: str) -> dict[str, Any]:
    query = understand(q)
    with reading(request.app.state.engine) as conn:
        found = views_search.search(conn, query)
        only = found["commits"][0]["sha"] if len(found["commits"]) == 1 else None
        runs = views_search.runs_of_commit(conn, only) if only else []
    hits = [_run_hit(row, "run") for row in found["runs"]]
    for pull in found["pulls"]:
        href, name = _pull_href(pull, found["pulls"]), f"{pull['upstream']} #{pull['number']}"
        hits.append({"kind": "pull request", "href": href, "name": name, **pull})
    hits += [{"kind": "commit", "href": _commit_href(one), "name": one["sha"], **one} for one in found["commits"]]
    hits += [_run_hit(row, "run of the commit") for row in runs]
    hits += [{"kind": "backend", "href": f"/crcr/{name}", "name": name} for name in found["downstreams"]]
    hits += [{"kind": "test", "href": test_href(test), "name": test} for test in found["tests"]]
    counts = [plural(len(found[key]), word) for key, word in KINDS.items() if found[key]]
    sentence = f"{', '.join(counts)} for “{query.text}”" if counts else f"Nothing is known as “{query.text}”"
    return {"q": query.text, "now": time.time(), "sentence": sentence, "hits": hits}


@router.get("/search.json")
def search_json(request: Request, q: Text = "") -> dict[str, Any]:
    return search_data(request, q)


@router.get("/search", response_class=HTMLResponse)
def search_page(request: Request, q: Text = "") -> Response:
    data = search_data(request, q)
    first = [hit for hit in data["hits"] if hit["kind"] != "run of the commit"]
    exact = [hit for hit in first if hit["kind"] == "test" and hit["name"] == data["q"]]
    sure = exact or (first if len(first) == 1 else [])
    if sure and sure[0]["kind"] != "commit":
        return RedirectResponse(sure[0]["href"], status_code=303)
    title = f"Search: {data['q']}" if data["q"] else "Search"
    twin = f"/search.json?q={quote(data['q'])}"
    return HTMLResponse(render(request, "search.html", page_title=title, twin=twin, **data))


def _run_hit(run: dict[str, Any], kind: str) -> dict[str, Any]:
    return {"kind": kind, "href": f"/run/{run['id']}", "name": f"{run['downstream']} · {tag(run['id'])}", **run}


def _pull_href(pull: dict[str, Any], all: list[dict[str, Any]]) -> str:
    alone = len(all) == 1
    return f"/pr/{pull['number']}" + ("" if alone else f"?upstream={quote(pull['upstream'], safe='/')}")


def _commit_href(commit: dict[str, Any]) -> str:
    number = commit["pr_number"]
    return (
        f"/pr/{number}?upstream={quote(commit['upstream'] or '', safe='/')}" if number else f"/search?q={commit['sha']}"
    )
