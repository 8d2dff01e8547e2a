"""Which address has which twin, and an example of each."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute

from relay.web.twins import backends, log, one_test, operate, pull, quality, run, status, upgrade
from relay.web.twins.parts import Part

EXAMPLES = Path(__file__).with_name("examples.json")

TWINS: dict[str, type[Part]] = {
    "/index.json": status.Status,
    "/crcr.json": backends.Backends,
    "/crcr/{owner}/{repo}.json": backends.BackendPage,
    "/pr/{number}.json": pull.Pull,
    "/run/{id}.json": run.Run,
    "/run/{id}/agents.json": run.OneAgentRun,
    "/test/{test:path}.json": one_test.Test,
    "/quality.json": quality.Quality,
    "/upgrade.json": quality.Upgrades,
    "/upgrade/{pair:path}.json": upgrade.UpgradePair,
    "/run/{id}/log/{shard}.json": log.LogWindow,
    "/queues.json": operate.Queues,
    "/config.json": operate.Config,
    "/outbox.json": operate.Outbox,
    "/audit.json": operate.Audit,
    "/about.json": operate.About,
    "/search.json": operate.Search,
}
OTHERS = {
    "/run/{id}/ctrf.json": "a download in the Common Test Report Format, which has a schema of its own",
}
"""Addresses that end like a twin and are described elsewhere."""


@cache
def examples() -> dict[str, Any]:
    """An answer of each twin, by its path."""
    found: dict[str, Any] = json.loads(EXAMPLES.read_text(encoding="utf-8"))
    return found


def describe(app: FastAPI, routes: list[APIRoute]) -> None:
    """Adds the twins to the application's OpenAPI, with schema and example; ``routes``: those of the pages."""
    scratch = FastAPI(title=app.title, version=app.version)
    for route in routes:
        model = TWINS.get(route.path)
        if model is None:
            continue
        told = (model.__doc__ or "").strip()
        scratch.add_api_route(
            route.path,
            route.endpoint,
            methods=["GET"],
            response_model=model,
            summary=told.partition(":")[0],
            description=told,
            tags=["pages"],
        )
    own = app.openapi

    def whole() -> dict[str, Any]:
        if app.openapi_schema is None:
            found, more = own(), scratch.openapi()
            for path, example in examples().items():
                told = more["paths"][path.replace(":path", "")]["get"]["responses"]["200"]
                # put in here: what FastAPI is given loses its nulls
                told["content"]["application/json"]["example"] = example
            found["paths"] = {**found["paths"], **more["paths"]}
            schemas = found.setdefault("components", {}).setdefault("schemas", {})
            for name, schema in more.get("components", {}).get("schemas", {}).items():
                schemas.setdefault(name, schema)
            app.openapi_schema = found
        assert app.openapi_schema is not None
        return app.openapi_schema

    app.openapi = whole  # type: ignore[method-assign]
