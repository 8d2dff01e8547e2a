"""The web process: routers, errors, headers. It imports no torch and no Celery."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.routing import APIRoute
from sqlalchemy import Engine

from relay import __version__
from relay.settings import Settings
from relay.store.db import migrate, open_engine
from relay.web import (
    act,
    agents,
    backends,
    callback,
    downloads,
    feeds,
    hud,
    live,
    ops,
    pages,
    pages_config,
    pages_log,
    pages_operate,
    pages_run,
    pages_search,
    problems,
    sign_in,
    upgrade,
    webhook,
    workers,
)
from relay.web.limits import Limits
from relay.web.missed import Missed
from relay.web.pages_headers import add_security_headers
from relay.web.pages_static import mount_static
from relay.web.twins.table import describe


def create_app(settings: Settings) -> FastAPI:
    """The application. ``app.state`` has ``engine``, ``settings``, and what routes keep between requests."""
    engine = open_engine(settings.database, answering=True)
    migrate(engine)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.missed.note()  # whatever came before this process did
        yield
        app.state.missed.close()
        engine.dispose()

    app = FastAPI(
        title="Cross-repository CI relay", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None
    )
    equip(app, engine, settings)
    problems.install(app)
    add_security_headers(app)
    for module in (
        feeds,  # before pages whose addresses would take its own for names
        webhook,
        callback,
        workers,
        hud,
        ops,
        live,
        pages,
        downloads,
        pages_run,
        pages_log,
        upgrade,
        sign_in,
        act,
        pages_search,
        pages_config,
        pages_operate,
    ):
        app.include_router(module.router)
    app.include_router(backends.router)
    app.include_router(agents.router)
    mount_static(app)
    modules = (pages, pages_run, pages_log, pages_search, pages_config, pages_operate, backends, upgrade, agents)
    describe(app, [route for module in modules for route in module.router.routes if isinstance(route, APIRoute)])
    return app


def equip(app: FastAPI, engine: Engine, settings: Settings) -> None:
    """Gives ``app.state`` what routes keep between requests, before the first one: two that come together must not make
    it twice."""
    app.state.engine = engine
    app.state.settings = settings
    app.state.limits = Limits.of(settings)
    app.state.live_hub = live.Hub()
    app.state.crcr_summaries = backends.Summaries()
    app.state.counter = callback.Counter(app)
    app.state.missed = Missed(engine, settings)
