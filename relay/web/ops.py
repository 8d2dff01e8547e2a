"""For machines that look after the relay: /healthz, /readyz, /metrics."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from relay.errors import Unavailable
from relay.services import readiness
from relay.store import views, views_health, views_load
from relay.store.db import reading

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
def readyz(request: Request) -> dict[str, Any]:
    """Every part of the relay by name. 503 ``unavailable``, which names the parts, when one is missing without which
    nothing can be taken in; a pump or a broker that is away is told and waited for."""
    state = request.app.state
    found = readiness.parts(state.engine, state.settings, time.time())
    told = {part.name: part.problem or part.value for part in found}
    missing = [part for part in found if part.needed and part.problem]
    if missing:
        detail = "; ".join(f"{part.name}: {part.problem}" for part in missing)
        raise Unavailable(detail, missing[0].hint, parts=[f"{name}: {word}" for name, word in told.items()])
    return {"status": "ready", "schema": told["schema"], "parts": told}


@router.get("/scale/{queue}")
def scale(queue: str, request: Request) -> dict[str, Any]:
    """What an autoscaler goes by: how many workers a queue could keep busy now (docs/metrics.md)."""
    with reading(request.app.state.engine) as conn:
        found = views_load.load(conn, time.time()).get(queue, views_load.Load())
    return {"queue": queue, "waiting": found.waiting, "running": found.running, "wanted": found.wanted}


class Tables(Collector):
    """Counts by state, read from the database at the scrape: true for all processes together."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def collect(self) -> Iterator[GaugeMetricFamily]:
        now = time.time()
        with reading(self.engine) as conn:
            found = views.tallies(conn)
            chores, ended = views_health.chores(conn, now), views_health.deadlines(conn)
            queues = views_load.load(conn, now)
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
        yield from (late, failed, sweeps, places, waits, *_queues(queues, now))


def _queues(found: Mapping[str, views_load.Load], now: float) -> Iterator[GaugeMetricFamily]:
    columns: dict[str, tuple[str, Callable[[views_load.Load], float]]] = {
        "relay_queue_waiting": ("Pieces of work that wait for a worker.", lambda one: one.waiting),
        "relay_queue_running": ("Pieces of work that a worker has.", lambda one: one.running),
        "relay_queue_workers": ("Emulator and device workers that were heard of lately.", lambda one: one.workers),
        "relay_queue_oldest_seconds": (
            "How long the oldest piece of work has waited.", lambda one: max(0.0, now - one.oldest) if one.oldest else 0
        ),
    }  # fmt: skip
    for name, (about, value) in columns.items():
        family = GaugeMetricFamily(name, about, labels=("queue",))
        for queue, one in sorted(found.items()):
            family.add_metric((queue,), value(one))
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
