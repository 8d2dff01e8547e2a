"""The dashboard's side of the wire, so that the relay can be its own: the intake, and the rows it has."""

from __future__ import annotations

import hmac
import time
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool

from relay.domain.hud_intake import MAX_BYTES, row_of
from relay.errors import Unauthorized
from relay.services.intake import decode
from relay.services.secret_files import one_of
from relay.store import hud_rows, views_backend
from relay.store.db import reading
from relay.store.views_parts import plain
from relay.web.body import read_body
from relay.web.page_route import READERS

router = APIRouter()
DAY_S = 86400.0

Days = Annotated[int, Query(ge=1, le=90)]
Event = Annotated[str | None, Query(max_length=64)]


@router.post("/api/crcr/results")
async def results(request: Request) -> dict[str, Any]:
    """Takes a row; docs/hud.md has the body. 401 for a wrong key, 413 above 2 MiB, 400 naming what is missing. A row
    that came before is joined: sending it twice changes nothing."""
    state = request.app.state
    wanted = one_of(state.settings, "hud_bot_key")
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


@router.get("/api/crcr/results", dependencies=READERS)
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


@router.get("/api/crcr/levels", dependencies=READERS)
def levels(request: Request) -> dict[str, Any]:
    """How ready each downstream is for its next level, and the demotions that are proposed."""
    with reading(request.app.state.engine) as conn:
        return {"downstreams": views_backend.standings(conn)}
