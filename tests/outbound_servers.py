"""Real servers for tests of what leaves and what comes back: the local GitHub, and the relay's callback route."""

from __future__ import annotations

import contextlib
import functools
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI

from relay.demo.github import LocalGithub
from relay.demo.ledger import APP_ID, Key
from relay.demo.recorder import Fault
from relay.settings import Issuer, Settings
from relay.web import callback, problems
from relay.web.app import equip

HUD_KEY = "hud-key"


@contextlib.contextmanager
def serving(app: Any, listener: socket.socket) -> Iterator[None]:
    """Runs an ASGI application in a thread until the block ends."""
    config = uvicorn.Config(app, log_level="error", access_log=False, lifespan="off", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    deadline = time.monotonic() + 10
    while not server.started:
        assert time.monotonic() < deadline, "the server did not start"
        time.sleep(0.01)
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()


@dataclass
class World:
    """The local GitHub at ``url``, and settings that point to it."""

    url: str
    hub: LocalGithub
    settings: Settings

    def fail(self, **rule: Any) -> None:
        self.hub.asgi.faults.append(Fault(**rule))

    def calls(self, method: str, end: str = "") -> list[dict[str, Any]]:
        return [c for c in self.hub.asgi.calls if c["method"] == method and c["path"].endswith(end)]


@functools.cache
def _keys() -> tuple[Key, Key]:
    """One pair for all tests of a process: making them takes longer than most tests."""
    return Key.make(), Key.make()


@contextlib.contextmanager
def local_github(folder: Path, **settings: Any) -> Iterator[World]:
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    hub = LocalGithub(url, folder, HUD_KEY, keys=_keys())
    known = {
        "data_dir": folder,
        "github_api_url": url,
        "github_app_id": str(APP_ID),
        "github_private_key": hub.ledger.app_key.pem,
        "hud_url": f"{url}/api/crcr/results",
        "hud_bot_key": HUD_KEY,
        "oidc_issuers": [Issuer(issuer=url)],
    }
    with serving(hub.asgi, listener):
        yield World(url, hub, Settings(**{**known, **settings}))


@contextlib.contextmanager
def callback_service(engine: Any, settings: Settings) -> Iterator[str]:
    """The callback route with the relay's error answers; -> its URL."""
    app = FastAPI()
    equip(app, engine, settings)
    problems.install(app)
    app.include_router(callback.router)
    listener = socket.create_server(("127.0.0.1", 0))
    with serving(app, listener):
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/github/callback"
