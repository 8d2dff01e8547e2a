"""The relay's tasks: take an id, call one service. What to do lives in relay.services.

``python -m relay.queue.tasks QUEUE[,QUEUE] [--concurrency N]`` is a Celery worker for these queues; ``relay up`` starts
two: one for routing, verdicts and sending, one for selecting (which uses a core while it runs).
"""

from __future__ import annotations

import argparse
import sys
import time

import structlog
from celery import Celery
from celery.signals import worker_process_init, worker_shutdown
from sqlalchemy import Engine

from relay import tracing
from relay.logs import only_stderr
from relay.logs import setup as setup_logs
from relay.queue.app import make_app
from relay.reload import follow
from relay.services import concluding, effects, effects_pull, routing, selecting, sending, upgrades
from relay.settings import Settings, load
from relay.steps import step
from relay.store import dispatches
from relay.store.db import open_engine, reading

log = structlog.get_logger(__name__)


def register(app: Celery, engine: Engine, settings: Settings) -> None:
    """Adds the tasks to ``app``, bound to one database and one set of clients."""
    clients = effects.make_clients(settings)
    log.debug("effects of other rooms", kinds=[effects_pull.KIND])

    def route(delivery_id: str) -> None:
        with step("route", delivery=delivery_id):
            routing.route_delivery(engine, settings, delivery_id, time.time())

    def select(dispatch_id: str) -> None:
        with step("select", delivery=_delivery_of(engine, dispatch_id), run=dispatch_id):
            selecting.select_dispatch(engine, settings, dispatch_id)

    def conclude(dispatch_id: str) -> None:
        with step("conclude", delivery=_delivery_of(engine, dispatch_id), run=dispatch_id):
            concluding.conclude(engine, settings, dispatch_id, time.time())

    def send(*outbox_ids: str) -> None:
        sending.send(engine, clients, [int(one) for one in outbox_ids], time.time())

    def upgrade(upgrade_id: str) -> None:
        upgrades.go_on(engine, settings, upgrade_id, time.time())

    for task in (route, select, conclude, send, upgrade):
        app.task(name=f"relay.{task.__name__}")(task)


def _delivery_of(engine: Engine, dispatch_id: str) -> str | None:
    with reading(engine) as conn:
        return dispatches.deliveries_of(conn, [dispatch_id]).get(dispatch_id)


def main() -> None:
    parser = argparse.ArgumentParser(prog="relay.queue.tasks")
    parser.add_argument("queues")
    parser.add_argument("--concurrency", type=int, default=1)
    args = parser.parse_args()
    service = args.queues.replace(",", "-")
    setup_logs(service)
    only_stderr()
    tracing.setup(service)
    # threads that wait for answers get the interpreter back at once, not after five milliseconds at each step
    sys.setswitchinterval(0.0005)
    settings = load()
    follow(settings)
    engine = open_engine(settings.database)
    app = make_app(settings.broker_url)
    register(app, engine, settings)
    worker_process_init.connect(lambda **_: engine.dispose(close=False), weak=False)
    worker_shutdown.connect(lambda **_: engine.dispose(), weak=False)
    log.info("worker starts", queues=args.queues, concurrency=args.concurrency)
    pool = "threads" if args.concurrency > 1 else "solo"
    app.worker_main(
        [
            "--quiet",  # its banner is no line of a log
            "worker",
            *("--queues", args.queues),
            *("--pool", pool),
            *("--concurrency", str(args.concurrency)),
            *("--hostname", f"{service}@%h"),
            *("--loglevel", "WARNING"),
            "--without-gossip",
            "--without-mingle",
        ]
    )


if __name__ == "__main__":
    main()
