"""For machines that look after the relay: /healthz, /readyz, /metrics."""

from __future__ import annotations

import time
from collections import Counter
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
from relay.store import views, views_health
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
        now = time.time()
        with reading(self.engine) as conn:
            found = views.tallies(conn)
            chores, ended = views_health.chores(conn, now), views_health.deadlines(conn)
            closed, oldest = views_health.places(conn, now), views_health.oldest_effect(conn, now)
        for table, (name, about, labels) in LABELS.items():
            family = GaugeMetricFamily(name, about, labels=labels)
            for values, n in found[table]:
                family.add_metric(values, n)
            yield family
        late = GaugeMetricFamily("relay_chore_late_seconds", "How late a chore is; 0: in time.", labels=("chore",))
        failed = GaugeMetricFamily("relay_chore_failed", "Whether a chore's last time failed.", labels=("chore",))
        for one in chores:
            late.add_metric((one["name"],), one["late_s"])
            failed.add_metric((one["name"],), 1.0 if one["error"] else 0.0)
        sweeps = GaugeMetricFamily("relay_deadlines_ended", "Waits the sweeper has ended.", labels=("code",))
        for code, number in ended.items():
            sweeps.add_metric((code,), number)
        places = GaugeMetricFamily("relay_places_closed", "Places to which nothing is sent now.", labels=("code",))
        for code, number in Counter(place["code"] for place in closed).items():
            places.add_metric((code,), number)
        waits = GaugeMetricFamily("relay_outbox_oldest_seconds", "How long the oldest effect has waited.")
        waits.add_metric((), oldest)
        yield from (late, failed, sweeps, places, waits)


@router.get("/metrics")
def metrics(request: Request) -> Response:
    registry = CollectorRegistry(auto_describe=False)
    try:
        registry.register(Tables(request.app.state.engine))
        body = generate_latest(registry) + generate_latest(REGISTRY)
    except SQLAlchemyError as exc:
        raise Unavailable(f"the database does not answer: {type(exc).__name__}", "see the log of this process") from exc
    return Response(body, media_type=CONTENT_TYPE_LATEST)
