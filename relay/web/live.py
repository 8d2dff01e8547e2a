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
from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse
from sqlalchemy.exc import SQLAlchemyError

from relay.errors import RelayError, Unavailable
from relay.store import views_run
from relay.store.db import reading
from relay.web.pages import run_words
from relay.web.pages_render import render_shared

log = logging.getLogger(__name__)

POLL_S = 0.5
BEAT_S = 10.0
LIFE_S = 15 * 60.0
"""A stream ends after this long and the browser opens it again: no connection outlives a deployment for long."""
MAX_VIEWERS = 200
MAX_FAILURES = 20

router = APIRouter(include_in_schema=False)


class Watcher:
    """Polls one run while anybody looks. ``version`` grows with every change of ``fragment``."""

    def __init__(self, request: Request, id: str) -> None:
        self.app = request.app
        self.request = request
        self.id = id
        self.viewers = 0
        self.version = 0
        self.fragment = ""
        self.over = False
        self.error: Exception | None = None
        self.changed = asyncio.Condition()
        self.task: asyncio.Task[None] | None = None
        self._token = ""

    def read(self) -> tuple[str, str, bool]:
        """(token, fragment, over), in a thread. The token leaves the clock out, so that only news is sent."""
        state = self.app.state
        with reading(state.engine) as conn:
            found = views_run.live(conn, self.id, base_url=state.settings.url)
        data = run_words(found)
        token = json.dumps(data, sort_keys=True, default=str)
        over = not data["open"]
        if token == self._token:
            return token, self.fragment, over
        return token, render_shared(self.request, "_run_live.html", now=time.time(), **data), over

    async def step(self) -> None:
        token, fragment, over = await asyncio.to_thread(self.read)
        if token != self._token or over != self.over:
            async with self.changed:
                self._token, self.fragment, self.over = token, fragment, over
                self.version += 1
                self.changed.notify_all()

    async def news(self, seen: int) -> None:
        """Returns once there is something that a viewer of version ``seen`` does not have."""
        async with self.changed:
            await self.changed.wait_for(lambda: self.version != seen or self.over or self.error is not None)

    async def run(self) -> None:
        failures = 0
        while self.viewers and not self.over:
            await asyncio.sleep(POLL_S)
            try:
                await self.step()
                failures = 0
            except (SQLAlchemyError, RelayError) as exc:
                failures += 1
                log.warning(
                    "live view of run %s: the database did not answer (%d in a row): %s", self.id, failures, exc
                )
                if failures >= MAX_FAILURES or isinstance(exc, RelayError):
                    async with self.changed:
                        self.error = exc
                        self.changed.notify_all()
                    return


class Hub:
    """The watchers of one process, by run."""

    def __init__(self) -> None:
        self.watchers: dict[str, Watcher] = {}
        self.viewers = 0

    async def join(self, request: Request, id: str) -> Watcher:
        """The run's watcher, with its first reading done. NotFound for a run that is not there."""
        if self.viewers >= MAX_VIEWERS:
            raise Unavailable(f"{MAX_VIEWERS} live views are open already", "reload the page to see the present state")
        watcher = self.watchers.get(id)
        if watcher is None or watcher.error is not None or watcher.over:
            watcher = Watcher(request, id)
            await watcher.step()
            watcher = self.watchers.setdefault(id, watcher) if id not in self.watchers else self._replace(id, watcher)
        watcher.viewers += 1
        self.viewers += 1
        if watcher.task is None or watcher.task.done():
            watcher.task = asyncio.create_task(watcher.run())
        return watcher

    def _replace(self, id: str, fresh: Watcher) -> Watcher:
        """Somebody may have joined the same run while ``fresh`` made its first reading."""
        present = self.watchers[id]
        if present.error is None and not present.over:
            return present
        self.watchers[id] = fresh
        return fresh

    def leave(self, watcher: Watcher) -> None:
        watcher.viewers -= 1
        self.viewers -= 1
        if watcher.viewers == 0 and self.watchers.get(watcher.id) is watcher:
            del self.watchers[watcher.id]  # its task sees that nobody looks and ends by itself


def hub_of(app: Any) -> Hub:
    if not hasattr(app.state, "live_hub"):
        app.state.live_hub = Hub()
    hub: Hub = app.state.live_hub
    return hub


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


@router.get("/run/{id}/events")
async def run_events(request: Request, id: str) -> StreamingResponse:
    hub = hub_of(request.app)
    watcher = await hub.join(request, id)
    return StreamingResponse(
        stream(hub, watcher),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )
