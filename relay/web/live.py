"""A run's page, live: one watcher a run reads the database in a thread and all its viewers get what changed, by SSE.

The stream is of HTML: an unnamed message carries the page's moving part, ``closed`` ends it (the run is over), and
comments keep idle connections open. A reader that comes back gets the present state first, so nothing is replayed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse
from sqlalchemy.exc import SQLAlchemyError

from relay.errors import RelayError, Unavailable
from relay.store import views_run
from relay.store.db import reading
from relay.web.page_route import PageRoute
from relay.web.pages import pr_data, status_data
from relay.web.pages_render import render_shared
from relay.web.pages_run import run_words

log = logging.getLogger(__name__)

POLL_S = 0.5
BEAT_S = 10.0
REFRESH_S = 15.0
LIFE_S = 15 * 60.0
"""A stream ends after this long and the browser opens it again: no connection outlives a deployment for long."""
MAX_VIEWERS = 500
MAX_FAILURES = 20

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@dataclass(frozen=True)
class Source:
    """What a stream is of. ``read`` gives the page's data and whether nothing more will happen, in a thread;
    ``still`` are keys, at any depth, that change by the clock alone: they are no news."""

    template: str
    read: Callable[[Request, str], tuple[dict[str, Any], bool]]
    poll_s: float = POLL_S
    still: frozenset[str] = frozenset({"now"})

    def token(self, data: dict[str, Any]) -> str:
        return json.dumps(_without(data, self.still), sort_keys=True, default=str)


def _without(value: Any, keys: frozenset[str]) -> Any:
    if isinstance(value, dict):
        return {key: _without(part, keys) for key, part in value.items() if key not in keys}
    if isinstance(value, list):
        return [_without(part, keys) for part in value]
    return value


class Watcher:
    """Polls one page's source while anybody looks. ``version`` grows with every change of ``fragment``."""

    def __init__(self, request: Request, source: Source, id: str) -> None:
        self.app = request.app
        self.request = request
        self.source = source
        self.id = id
        self.key = (source.template, id)
        self.viewers = 0
        self.version = 0
        self.fragment = ""
        self.over = False
        self.error: Exception | None = None
        self.changed = asyncio.Condition()
        self.task: asyncio.Task[None] | None = None
        self._token = ""
        self._sent_at = 0.0

    def read(self) -> tuple[str, str | None, bool]:
        """(token, fragment, over), in a thread. The token leaves the clock out: without news the fragment is None, but
        now and then the same is sent again, for what it says of ages."""
        data, over = self.source.read(self.request, self.id)
        now = time.monotonic()
        token = self.source.token(data)
        if token == self._token and now - self._sent_at < REFRESH_S:
            return token, None, over
        self._sent_at = now
        return token, render_shared(self.request, self.source.template, **{"now": time.time(), **data}), over

    async def step(self) -> None:
        token, fragment, over = await asyncio.to_thread(self.read)
        if fragment is None and over == self.over:
            return
        async with self.changed:
            self._token, self.over = token, over
            if fragment is not None:
                self.fragment = fragment
            self.version += 1
            self.changed.notify_all()

    async def news(self, seen: int) -> None:
        """Returns once there is something that a viewer of version ``seen`` does not have."""
        async with self.changed:
            await self.changed.wait_for(lambda: self.version != seen or self.over or self.error is not None)

    async def run(self) -> None:
        failures = 0
        while self.viewers and not self.over:
            await asyncio.sleep(self.source.poll_s)
            try:
                await self.step()
                failures = 0
            except (SQLAlchemyError, RelayError) as exc:
                failures += 1
                log.warning("live view %s: the database did not answer (%d in a row): %s", self.key, failures, exc)
                if failures >= MAX_FAILURES or isinstance(exc, RelayError):
                    async with self.changed:
                        self.error = exc
                        self.changed.notify_all()
                    return


class Hub:
    """The watchers of one process, by page."""

    def __init__(self) -> None:
        self.watchers: dict[tuple[str, str], Watcher] = {}
        self.viewers = 0

    async def join(self, request: Request, source: Source, id: str) -> Watcher:
        """The page's watcher, with its first reading done. NotFound for a page that is not there."""
        if self.viewers >= MAX_VIEWERS:
            raise Unavailable(f"{MAX_VIEWERS} live views are open already", "reload the page to see the present state")
        watcher = self.watchers.get((source.template, id))
        if watcher is None or watcher.error is not None or watcher.over:
            watcher = Watcher(request, source, id)
            await watcher.step()
            watcher = self._keep(watcher)
        watcher.viewers += 1
        self.viewers += 1
        if watcher.task is None or watcher.task.done():
            watcher.task = asyncio.create_task(watcher.run())
        return watcher

    def _keep(self, fresh: Watcher) -> Watcher:
        """Somebody may have joined the same page while ``fresh`` made its first reading."""
        present = self.watchers.get(fresh.key)
        if present is not None and present.error is None and not present.over:
            return present
        self.watchers[fresh.key] = fresh
        return fresh

    def leave(self, watcher: Watcher) -> None:
        watcher.viewers -= 1
        self.viewers -= 1
        if watcher.viewers == 0 and self.watchers.get(watcher.key) is watcher:
            del self.watchers[watcher.key]  # its task sees that nobody looks and ends by itself


def message(data: str = "", event: str = "") -> str:
    """One SSE message. A carriage return in upstream text must not start a line of its own."""
    lines = [f"event: {event}"] if event else []
    lines += [f"data: {line}" for line in re.split(r"\r\n|\r|\n", data)]
    return "\n".join(lines) + "\n\n"


async def stream(hub: Hub, watcher: Watcher) -> AsyncIterator[str]:
    try:
        seen = 0
        ends = time.monotonic() + LIFE_S
        while time.monotonic() < ends:
            if watcher.version != seen:
                seen = watcher.version
                yield message(watcher.fragment)
            if watcher.over:
                yield message(event="closed")
                return
            if watcher.error is not None:
                return  # logged by the watcher; the browser comes back by itself
            try:
                async with asyncio.timeout(BEAT_S):
                    await watcher.news(seen)
            except TimeoutError:
                yield ": beat\n\n"
    finally:
        hub.leave(watcher)


async def _answer(request: Request, source: Source, id: str) -> StreamingResponse:
    hub: Hub = request.app.state.live_hub
    watcher = await hub.join(request, source, id)
    return StreamingResponse(
        stream(hub, watcher),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


def _read_run(request: Request, id: str) -> tuple[dict[str, Any], bool]:
    state = request.app.state
    now = time.time()
    with reading(state.engine) as conn:
        found = views_run.live(conn, id, base_url=state.settings.url)
    data = run_words(found, now)
    return data, not data["open"]


def _read_status(request: Request, _: str) -> tuple[dict[str, Any], bool]:
    return status_data(request), False


def _read_pr(request: Request, id: str) -> tuple[dict[str, Any], bool]:
    number, _, upstream = id.partition(" ")
    data = pr_data(request, number, upstream or None)
    return data, not data["open"]


RUN = Source("_run_live.html", _read_run, still=frozenset({"now", "left_s", "until", "lease_until"}))
STATUS = Source("_status_live.html", _read_status, 2.0, frozenset(
    {"now", "oldest_wait_s", "oldest_s", "seen_at", "ran_at", "due_at", "until", "says"}
))  # fmt: skip
PR = Source("_pr_live.html", _read_pr, 1.0, frozenset({"now", "left_s", "lease_until"}))


@router.get("/run/{id}/events")
async def run_events(request: Request, id: str) -> StreamingResponse:
    return await _answer(request, RUN, id)


@router.get("/events")
async def status_events(request: Request) -> StreamingResponse:
    return await _answer(request, STATUS, "")


@router.get("/pr/{number}/events")
async def pr_events(request: Request, number: str, upstream: str = "") -> StreamingResponse:
    return await _answer(request, PR, f"{number} {upstream}".strip())
