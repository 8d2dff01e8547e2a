"""``POST /github/callback``: downstreams report on their jobs. Parse, call one service, answer."""

from __future__ import annotations

import time
from typing import Any

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool

from relay.errors import BodyTooLarge, Unauthorized
from relay.github.oidc import HINT, Verifier
from relay.services import callbacks

router = APIRouter()
MAX_BODY = 2 * 1024 * 1024
"""A webhook of GitHub's largest dispatch comes back whole; the dashboard takes 2 MB."""


@router.post("/github/callback")
async def report(request: Request) -> dict[str, Any]:
    """Takes a job's report, with an OIDC token of the run as bearer; docs/callback.md has the body and the answers."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.casefold() != "bearer" or not token.strip():
        raise Unauthorized("no bearer token", HINT)
    state = request.app.state
    if not hasattr(state, "oidc"):
        state.oidc = Verifier(state.settings.oidc_issuers, state.settings.oidc_audience)
    # fetching an issuer's keys blocks, and so does the database
    identity = await run_in_threadpool(state.oidc.verify, token.strip())
    raw = await _read(request)
    return await run_in_threadpool(callbacks.receive, state.engine, state.settings, identity, raw, time.time())


async def _read(request: Request) -> bytes:
    raw = bytearray()
    async for part in request.stream():
        raw += part
        if len(raw) > MAX_BODY:
            raise BodyTooLarge(
                f"the report has more than {MAX_BODY} bytes", "leave out what is not in docs/callback.md"
            )
    return bytes(raw)
