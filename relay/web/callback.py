"""``POST /github/callback``: downstreams report on their jobs. Parse, call one service, answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

import anyio.to_thread
import httpx2
import structlog
from fastapi import APIRouter, FastAPI, Request

from relay.domain import callback as wire
from relay.domain.providers import BUILT_IN, Provider
from relay.errors import ProvidersError, Unauthorized
from relay.github.oidc import HINT, Verifier
from relay.services import callbacks, providers
from relay.services.readers import make_reader
from relay.web.body import read_body
from relay.web.limits import Buckets

router = APIRouter()
log = structlog.get_logger(__name__)
MAX_BODY = 2 * 1024 * 1024
"""A webhook of GitHub's largest dispatch comes back whole; the dashboard takes 2 MB."""
BODY_HINT = "leave out what is not in docs/callback.md"
THREADS = 16
"""Reports at a time. They may wait for an issuer or for GitHub, and must not keep webhooks from a thread."""
TABLE_S = 5.0
ASKING_PER_MINUTE, ASKING_BURST = 30, 60
"""How often a downstream's self-reports may make GitHub be asked for a commit that nobody asked for yet."""
GITHUB_TIMEOUT = httpx2.Timeout(connect=2.0, write=2.0, read=4.0, pool=1.0)
"""Somebody waits: the published callback action gives up after ten seconds."""


class Counter:
    """What the route keeps between requests: keys of issuers, the table of providers, buckets, threads."""

    def __init__(self, app: FastAPI) -> None:
        settings, engine = app.state.settings, app.state.engine
        self._app = app
        self._lock = threading.Lock()
        self._issuers: Mapping[str, Provider] = {}
        self._looked_at = float("-inf")
        self.verifier = Verifier(self.issuers, settings.oidc_audience)
        self.reports = Buckets(settings.callbacks_per_minute, settings.callbacks_burst)
        asking = Buckets(ASKING_PER_MINUTE, ASKING_BURST)
        reader = make_reader(settings, GITHUB_TIMEOUT)
        self.desk = callbacks.Desk(engine, settings, reader, lambda name: asking.take(name, "unknown commits"))
        self.threads = anyio.CapacityLimiter(THREADS)

    def issuers(self) -> Mapping[str, Provider]:
        """The issuers whose tokens are taken. Looked up every few seconds, however many tokens arrive."""
        with self._lock:
            if time.monotonic() - self._looked_at >= TABLE_S:
                state = self._app.state
                try:
                    table = providers.current(state.engine, state.settings, time.time())
                except ProvidersError as exc:
                    log.error("no table of providers: only those that need none may report", error=str(exc))
                    table = BUILT_IN
                self._issuers = providers.issuers(state.settings, table)
                self._looked_at = time.monotonic()
            return self._issuers


_DESCRIBED = {
    "parameters": [
        {"name": "Authorization", "in": "header", "required": True, "schema": {"type": "string"}, "example": "Bearer …"}
    ],
    "requestBody": {"required": True, "content": {"application/json": {"schema": wire.json_schema()}}},
}


@router.post("/github/callback", openapi_extra=_DESCRIBED)
async def report(request: Request) -> dict[str, Any]:
    """Takes a job's report, with an OIDC token of the run as bearer; docs/callback.md has the body and the answers."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.casefold() != "bearer" or not token.strip():
        raise Unauthorized("no bearer token", HINT)
    counter: Counter = request.app.state.counter
    # fetching an issuer's keys blocks, and so does the database
    identity = await anyio.to_thread.run_sync(counter.verifier.verify, token.strip(), limiter=counter.threads)
    counter.reports.take(identity.repository.casefold(), "reports")
    raw = await read_body(request, MAX_BODY, BODY_HINT)
    return await anyio.to_thread.run_sync(
        callbacks.receive, counter.desk, identity, raw, time.time(), limiter=counter.threads
    )
