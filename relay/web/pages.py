"""The pages and their JSON twins. Each handler reads one view and renders it; the twin returns the same map.

Handlers are plain functions: FastAPI runs them in a thread, so a slow query never holds the event loop.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute

from relay.errors import BadRequest, NotFound, RelayError
from relay.services import trying
from relay.store import views, views_pr, views_quality, views_run, views_test
from relay.store.db import reading
from relay.store.views_parts import FAILING
from relay.web.pages_headers import add_security_headers
from relay.web.pages_render import render
from relay.web.pages_stages import progress, shard_progress, stages
from relay.web.pages_static import mount_static
from relay.web.pages_text import (
    bad_first,
    pr_sentence,
    recall_sentence,
    run_sentence,
    status_notes,
    status_sentence,
    test_href,
)

__all__ = ["add_security_headers", "error_page", "mount_static", "router"]

Map = dict[str, Any]


class PageRoute(APIRoute):
    """An error of a page is a page; an error of its twin is left to the application, which makes it problem+json."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        answer = super().get_route_handler()

        async def handler(request: Request) -> Response:
            try:
                return await answer(request)
            except (RelayError, RequestValidationError) as exc:
                error = exc if isinstance(exc, RelayError) else _bad_query(exc)
                if request.url.path.endswith(".json"):
                    raise error from exc
                return error_page(request, error)

        return handler


router = APIRouter(route_class=PageRoute, include_in_schema=False)


def error_page(request: Request, error: RelayError) -> HTMLResponse:
    """The error as a page people can read: what happened, what to do, the stable code."""
    html = render(request, "error.html", error=error, page_title=error.message)
    return HTMLResponse(html, status_code=error.status)


def _bad_query(exc: RequestValidationError) -> BadRequest:
    first = exc.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:])
    return BadRequest(f"{where}: {first['msg']}", "correct it in the address")


# --------------------------------------------------------------------------------------------------------------- status


def status_data(request: Request) -> Map:
    state = request.app.state
    with reading(state.engine) as conn:
        found = views.status(conn, now=time.time(), base_url=state.settings.url)
    for run in found["runs"]:
        run["sentence"] = run_sentence(run, run["counts"], [])
    return {
        "sentence": status_sentence(found),
        "notes": status_notes(found),
        "upstream": state.settings.upstream_repo,
        **found,
    }


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
    for dispatch in found["dispatches"]:
        dispatch["sentence"] = run_sentence(dispatch, dispatch["counts"], dispatch["jobs"])
        dispatch["progress"] = progress(dispatch["shards"])
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


# ------------------------------------------------------------------------------------------------------------------ run


def run_words(found: Map) -> Map:
    """A run's view with what is derived from it: sentence, stages, progress."""
    head = found["outcomes"]["head"]
    counts = {
        "planned": (found["plan"] or {"counts": {}})["counts"].get("planned"),
        "variants_done": sum(head.values()),
        "failing": sum(head.get(o, 0) for o in FAILING),
    }
    return {
        **found,
        "sentence": run_sentence(found["run"], counts, found["jobs"]),
        "counts": counts,
        "progress": progress(found["shards"]),
        "stages": stages(found["run"], found["plan"], found["outcomes"], found["shards"]),
        "shards": [{**s, "progress": round(shard_progress(s), 4)} for s in found["shards"]],
    }


class RunQuery:
    """The query string of a run's page."""

    def __init__(
        self,
        side: str = "head",
        outcome: str | None = None,
        page: Annotated[int, Query(ge=1)] = 1,
        per: int = views_run.PER_PAGE,
        stage: str | None = None,
        dpage: Annotated[int, Query(ge=1)] = 1,
    ) -> None:
        self.values: Map = {"side": side, "outcome": outcome, "page": page, "per": per, "stage": stage, "dpage": dpage}

    def given(self) -> Map:
        """What is not at its default: what a link to the same view has to carry."""
        return {k: v for k, v in self.values.items() if v != RUN_DEFAULTS[k]}


RUN_DEFAULTS: Map = {
    "side": "head",
    "outcome": None,
    "page": 1,
    "per": views_run.PER_PAGE,
    "stage": None,
    "dpage": 1,
}


def run_data(request: Request, id: str, query: RunQuery) -> Map:
    state = request.app.state
    with reading(state.engine) as conn:
        found = views_run.run(conn, id, base_url=state.settings.url, now=time.time(), **query.values)
    return run_words(found)


@router.get("/run/{id}.json")
def run_json(request: Request, id: str, query: Annotated[RunQuery, Depends()]) -> Map:
    return run_data(request, id, query)


@router.get("/run/{id}", response_class=HTMLResponse)
def run_page(request: Request, id: str, query: Annotated[RunQuery, Depends()]) -> str:
    data = run_data(request, id, query)
    title = f"{data['run']['downstream']} · run {id[:8]}"
    return render(request, "run.html", page_title=title, twin=f"/run/{id}.json", query=query.given(), **data)


# ----------------------------------------------------------------------------------------------------------------- test


def test_data(request: Request, test: str) -> Map:
    state = request.app.state
    with reading(state.engine) as conn:
        return views_test.history(conn, test, now=time.time(), base_url=state.settings.url)


@router.get("/test/{test:path}.json")
def test_json(request: Request, test: str) -> Map:
    return test_data(request, test)


@router.get("/test/{test:path}", response_class=HTMLResponse)
def test_page(request: Request, test: str) -> str:
    return render(request, "test.html", page_title=test, twin=f"{test_href(test)}.json", **test_data(request, test))


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
