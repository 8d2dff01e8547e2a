"""For machines that look after the relay: /healthz, /readyz, /metrics."""

from __future__ import annotations

from collections.abc import Iterator

from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from relay.errors import Unavailable
from relay.store import views
from relay.store.db import MIGRATIONS, reading

router = APIRouter(include_in_schema=False)

LABELS = {
    "delivery": ("relay_deliveries", "Webhook deliveries by state.", ("state",)),
    "dispatch": ("relay_dispatches", "Dispatches (one a downstream and event) by state.", ("state",)),
    "shard": ("relay_shards", "Shards by state.", ("state",)),
    "outbox": ("relay_outbox", "Effects on the outside by state and kind.", ("state", "kind")),
}


@router.api_route("/healthz", methods=["GET", "HEAD"])
async def healthz() -> dict[str, str]:
    """The process is up; asks nobody else, so that a slow database does not get the process killed."""
    return {"status": "ok"}


@router.api_route("/readyz", methods=["GET", "HEAD"])
def readyz(request: Request) -> dict[str, str]:
    """The database answers and has the schema of this release. Else 503 ``unavailable``."""
    wanted = ScriptDirectory(str(MIGRATIONS)).get_current_head()
    try:
        with reading(request.app.state.engine) as conn:
            found = MigrationContext.configure(conn).get_current_revision()
    except SQLAlchemyError as exc:
        raise Unavailable(f"the database does not answer: {type(exc).__name__}", "see the log of this process") from exc
    if found != wanted:
        raise Unavailable(
            f"the database has schema {found or 'none'}, this release needs {wanted}", "start the relay: it migrates"
        )
    return {"status": "ready", "schema": str(found)}


class Tables(Collector):
    """Counts by state, read from the database at the scrape: true for all processes together."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def collect(self) -> Iterator[GaugeMetricFamily]:
        with reading(self.engine) as conn:
            found = views.tallies(conn)
        for table, (name, about, labels) in LABELS.items():
            family = GaugeMetricFamily(name, about, labels=labels)
            for values, n in found[table]:
                family.add_metric(values, n)
            yield family


@router.get("/metrics")
def metrics(request: Request) -> Response:
    registry = CollectorRegistry(auto_describe=False)
    try:
        registry.register(Tables(request.app.state.engine))
        body = generate_latest(registry) + generate_latest(REGISTRY)
    except SQLAlchemyError as exc:
        raise Unavailable(f"the database does not answer: {type(exc).__name__}", "see the log of this process") from exc
    return Response(body, media_type=CONTENT_TYPE_LATEST)
