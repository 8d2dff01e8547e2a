"""``POST /github/webhook``: reads the body within its limit, has it committed off the event loop, answers 202."""

from __future__ import annotations

import functools
import time
from typing import Any

import anyio.to_thread
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from prometheus_client import Histogram

from relay.services import intake
from relay.web.body import read_body

router = APIRouter()
ACKNOWLEDGED = Histogram(
    "relay_webhook_seconds",
    "Time from a delivery's headers to its answer, of this process.",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0),
)


_HEADERS = {
    "X-GitHub-Event": {"type": "string", "pattern": "^[a-z][a-z0-9_]{0,63}$"},
    "X-GitHub-Delivery": {"type": "string", "pattern": "^[!-~]{1,64}$"},
    "X-Hub-Signature-256": {"type": "string"},
}
_DESCRIBED = {
    "parameters": [{"name": n, "in": "header", "required": True, "schema": schema} for n, schema in _HEADERS.items()],
    "requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}},
}


@router.post("/github/webhook", status_code=202, openapi_extra=_DESCRIBED)
async def webhook(request: Request) -> JSONResponse:
    """Takes a delivery of GitHub's. 202: committed (``accepted``), already known (``duplicate``) or not wanted
    (``ignored``, with code and reason)."""
    state = request.app.state
    began = time.perf_counter()
    body = await read_body(request, state.settings.max_body_bytes)
    receipt = await anyio.to_thread.run_sync(
        functools.partial(
            intake.take_in,
            state.engine,
            state.settings,
            event=request.headers.get("x-github-event"),
            delivery_id=request.headers.get("x-github-delivery"),
            signature=request.headers.get("x-hub-signature-256"),
            body=body,
            now=time.time(),
        )
    )
    ACKNOWLEDGED.observe(time.perf_counter() - began)
    answer: dict[str, Any] = {"accepted": receipt.accepted, "delivery": receipt.delivery}
    if receipt.duplicate:
        answer["duplicate"] = True
    if not receipt.accepted:
        answer["ignored"] = True
    if receipt.code:
        answer |= {"code": receipt.code, "reason": receipt.reason}
    return JSONResponse(answer, status_code=202)
