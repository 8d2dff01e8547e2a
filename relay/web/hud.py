"""The dashboard's side of the wire, so that the relay can be its own: the intake, and the reads that pages need."""

from __future__ import annotations

import hmac
import time
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse

from relay.domain.hud_intake import MAX_BYTES, row_of
from relay.errors import BadRequest, NotFound, Unauthorized
from relay.services.intake import decode
from relay.store import hud_rows, views_hud
from relay.store.db import reading
from relay.store.views_parts import plain
from relay.web.body import read_body
from relay.web.pages import PageRoute
from relay.web.pages_render import render

router = APIRouter()
pages = APIRouter(route_class=PageRoute, include_in_schema=False)
DAY_S = 86400.0

Days = Annotated[int, Query(ge=1, le=90)]
Event = Annotated[str | None, Query(max_length=64)]


@router.post("/api/crcr/results")
async def results(request: Request) -> dict[str, Any]:
    """Takes a row; docs/hud.md has the body. 401 for a wrong key, 413 above 2 MiB, 400 naming what is missing. A row
    that came before is joined: sending it twice changes nothing."""
    state = request.app.state
    wanted = state.settings.hud_bot_key.get_secret_value()
    given = request.headers.get("x-hud-internal-bot", "")
    if not wanted or not hmac.compare_digest(given.encode(), wanted.encode()):
        raise Unauthorized("the key in x-hud-internal-bot is not this dashboard's", "it is the setting hud_bot_key")
    raw = await read_body(request, MAX_BYTES, "the dashboard takes rows of at most 2 MiB")
    return await run_in_threadpool(_store, state.engine, raw)


def _store(engine: Any, raw: bytes) -> dict[str, Any]:
    row = row_of(decode(raw))
    with engine.begin() as conn:
        status = hud_rows.store(conn, row, time.time())
    return {"ok": True, "status": status, "dynamoKey": row["key"]}


@router.get("/api/crcr/results")
def listed(
    request: Request,
    repo: Annotated[str | None, Query(max_length=255)] = None,
    upstream: Annotated[str | None, Query(max_length=255)] = None,
    pr: Annotated[int | None, Query(ge=1, lt=2**31)] = None,
    sha: Annotated[str | None, Query(pattern="^[0-9a-f]{40}$")] = None,
    event: Event = None,
    days: Days = 14,
    limit: Annotated[int, Query(ge=1, le=1000)] = 500,
) -> dict[str, Any]:
    """Rows, the newest first: of a downstream, a pull request, a commit, an event."""
    since = time.time() - days * DAY_S
    with reading(request.app.state.engine) as conn:
        rows = hud_rows.listed(
            conn, repo=repo, upstream=upstream, pr=pr, sha=sha, event=event, since=since, limit=limit
        )
        return {"rows": [plain(row) for row in rows]}


@router.get("/api/crcr/levels")
def levels(request: Request) -> dict[str, Any]:
    """How ready each downstream is for its next level, and the demotions that are proposed."""
    with reading(request.app.state.engine) as conn:
        return {"downstreams": views_hud.standings(conn)}


def summary_data(request: Request, days: int, event: str | None) -> dict[str, Any]:
    now = time.time()
    with reading(request.app.state.engine) as conn:
        backends = views_hud.summary(conn, since=now - days * DAY_S, event=event)
        standings = {row["downstream_key"]: row for row in views_hud.standings(conn)}
    for one in backends:
        one["standing"] = standings.get(one["repo"].casefold())
    return {"now": now, "days": days, "event": event, "backends": backends}


def backend_data(request: Request, repo: str, days: int, event: str | None) -> dict[str, Any]:
    now = time.time()
    with reading(request.app.state.engine) as conn:
        found = views_hud.backend(conn, repo, since=now - days * DAY_S, event=event)
    if not found["commits"] and found["standing"] is None:
        raise NotFound(f"nothing is known of {repo}", "/crcr lists the downstreams that have reported")
    return {"now": now, "days": days, "event": event, **found}


@pages.get("/crcr.json")
def summary_json(request: Request, days: Days = 14, event: Event = None) -> dict[str, Any]:
    return summary_data(request, days, event)


@pages.get("/crcr", response_class=HTMLResponse)
def summary_page(request: Request, days: Days = 14, event: Event = None) -> str:
    found = summary_data(request, days, event)
    return render(request, "crcr.html", page_title="Downstreams", twin="/crcr.json", **found)


@pages.get("/crcr/{owner}/{repo}.json")
def backend_json(request: Request, owner: str, repo: str, days: Days = 14, event: Event = None) -> dict[str, Any]:
    return backend_data(request, f"{owner}/{repo}", days, event)


@pages.get("/crcr/{owner}/{repo}", response_class=HTMLResponse)
def backend_page(request: Request, owner: str, repo: str, days: Days = 14, event: Event = None) -> str:
    if repo.endswith(".json"):
        raise BadRequest(f"{repo}: not a repository", "leave .json away for the page")
    found = backend_data(request, f"{owner}/{repo}", days, event)
    twin = f"/crcr/{owner}/{repo}.json"
    return render(request, "crcr_backend.html", page_title=found["repo"], twin=twin, **found)
