"""The pages and their JSON twins. Each handler reads one view and renders it; the twin returns the same map.

Handlers are plain functions: FastAPI runs them in a thread, so a slow query never holds the event loop.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from relay.errors import BadRequest, NotFound, RelayError
from relay.services import allowlists, quarantining, trying
from relay.store import views, views_backends, views_pr, views_quality, views_test
from relay.store.db import reading
from relay.web import configured, pages_health
from relay.web.page_route import PageRoute
from relay.web.pages_gantt import seconds_left
from relay.web.pages_render import render
from relay.web.pages_sentences import (
    bad_first,
    pr_sentence,
    recall_sentence,
    run_sentence,
    status_look,
    status_notes,
    status_sentence,
)
from relay.web.pages_stages import progress
from relay.web.pages_streak import failing_since, longest_first, passing, tell_rows
from relay.web.pages_text import iso, test_href

Map = dict[str, Any]
DAY_S = 86400.0
router = APIRouter(route_class=PageRoute, include_in_schema=False)


# --------------------------------------------------------------------------------------------------------------- status


def status_data(request: Request) -> Map:
    state = request.app.state
    settings, now = state.settings, time.time()
    with reading(state.engine) as conn:
        found = views.status(conn, now=now, base_url=settings.url)
        tell_rows(found["backends"], "downstream", partial(views_backends.failing_rows, conn))
    for run in found["runs"]:
        run["sentence"] = run_sentence(run, run["counts"], [])
    found["backends"].sort(key=lambda one: (*longest_first(one), not one["open"]))
    health = pages_health.parts(
        found,
        hud=bool(settings.hud_url),
        github_budget=settings.github_budget,
        allowlist=settings.allowlist,
        allowlist_problem=_allowlist_problem(state, now),
    )
    incidents = pages_health.incidents(health)
    return {
        "sentence": status_sentence(found),
        "look": status_look(found, incidents),
        "notes": status_notes(found),
        "upstream": settings.upstream_repo,
        "health": health,
        "incidents": incidents,
        **found,
    }


def _allowlist_problem(state: Any, now: float) -> str | None:
    """What is wrong with the allowlist's file as this process sees it; None: nothing, or it is on GitHub."""
    if not state.settings.allowlist:
        return None
    try:
        allowlists.current(state.engine, state.settings, now)
    except RelayError as exc:
        return exc.message
    problem = allowlists.problem(state.engine, state.settings)
    return problem.message if problem is not None else None


@router.get("/index.json")
def status_json(request: Request) -> Map:
    return status_data(request)


@router.get("/", response_class=HTMLResponse)
def status_page(request: Request) -> str:
    return render(request, "status.html", page_title="Status", twin="/index.json", **status_data(request))


# --------------------------------------------------------------------------------------------------------- pull request


def pr_data(request: Request, number: str, upstream: str | None) -> Map:
    if not number.isdecimal() or len(number) > 9:
        raise NotFound(f"{number!r} is not the number of a pull request", "the address is /pr/ and digits")
    state = request.app.state
    with reading(state.engine) as conn:
        found = views_pr.pull_request(
            conn, int(number), upstream=upstream, now=time.time(), base_url=state.settings.url
        )
    now = found["now"]
    for dispatch in found["dispatches"]:
        dispatch["sentence"] = run_sentence(dispatch, dispatch["counts"], dispatch["jobs"])
        others = found["others"].get(dispatch["id"], [])
        dispatch["streak"], dispatch["passed_before"] = failing_since(others), passing(others)
        dispatch["progress"] = progress(dispatch["shards"])
        dispatch["left_s"] = seconds_left(dispatch, dispatch["shards"], dispatch["progress"], now)
    del found["others"]
    found["dispatches"] = bad_first(found["dispatches"])
    return {"sentence": pr_sentence(found["dispatches"]), **found}


@router.get("/pr")
def pr_find(n: str = "") -> RedirectResponse:
    """The search field of the header."""
    number = n.strip().lstrip("#")
    if not number.isdecimal() or len(number) > 9:
        raise BadRequest(f"{n!r} is not the number of a pull request", "type its digits, as in 12345")
    return RedirectResponse(f"/pr/{int(number)}", status_code=303)


@router.get("/pr/{number}.json")
def pr_json(request: Request, number: str, upstream: str | None = None) -> Map:
    return pr_data(request, number, upstream)


@router.get("/pr/{number}", response_class=HTMLResponse)
def pr_page(request: Request, number: str, upstream: str | None = None) -> str:
    data = pr_data(request, number, upstream)
    title = f"{data['upstream']} #{data['pr']}"
    return render(request, "pr.html", page_title=title, twin=f"/pr/{data['pr']}.json", **data)


# ----------------------------------------------------------------------------------------------------------------- test


def test_data(request: Request, test: str) -> Map:
    state = request.app.state
    with reading(state.engine) as conn:
        found = views_test.history(conn, test, now=time.time(), base_url=state.settings.url)
    return {**found, "configured": configured.of_test(state.settings, test)}


@router.get("/test/{test:path}.json")
def test_json(request: Request, test: str) -> Map:
    return test_data(request, test)


@router.get("/test/{test:path}", response_class=HTMLResponse)
def test_page(request: Request, test: str) -> str:
    data = test_data(request, test)
    days = {
        "first_day": iso(data["now"] + DAY_S)[:10],
        "last_day": iso(data["now"] + quarantining.MOST_DAYS * DAY_S)[:10],
    }
    return render(request, "test.html", page_title=test, twin=f"{test_href(test)}.json", **days, **data)


# -------------------------------------------------------------------------------------------------------------- quality


def quality_data(request: Request) -> Map:
    now = time.time()
    replays, problem = trying.replays(request.app.state.settings)
    with reading(request.app.state.engine) as conn:
        found = views_quality.quality(conn, now, replays, problem)
    return {"now": now, "sentence": recall_sentence(found["recall"]), **found}


@router.get("/quality.json")
def quality_json(request: Request) -> Map:
    return quality_data(request)


@router.get("/quality", response_class=HTMLResponse)
def quality_page(request: Request) -> str:
    return render(request, "quality.html", page_title="Selection", twin="/quality.json", **quality_data(request))
