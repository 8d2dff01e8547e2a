"""The worker's Celery app: one task on one queue, whose message holds a shard's id and nothing else.

Losing a message, or getting it twice, changes nothing: the database re-queues what is due, and the lease decides who
runs it. The pool is *solo*: the task runs in the worker's main thread (whose end the runner is tied to), and a kill
takes everything at once.
"""

from __future__ import annotations

import threading
from typing import Any

import structlog
from celery import Celery, signals
from kombu import Queue

from relay.errors import RelayError
from relay.worker import agent, greeting
from relay.worker.config import WorkerConfig
from relay.worker.runners import Runners

log = structlog.get_logger(__name__)
TASK = "relay.run_shard"
VISIBILITY_S = 24 * 3600
"""Above any shard's wall clock: leases bring work back, not the broker."""


def make_app(config: WorkerConfig) -> Celery:
    """The app of one worker. Starts greeting when the worker is ready and drops its shard when it shuts down."""
    app = Celery("relay-worker", broker=config.broker_url, set_as_current=False)
    app.conf.update(
        task_queues=[Queue(config.queue)],
        task_default_queue=config.queue,
        task_create_missing_queues=False,
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        task_ignore_result=True,
        task_serializer="json",
        accept_content=["json"],
        worker_prefetch_multiplier=1,
        worker_pool="solo",
        worker_concurrency=1,
        worker_send_task_events=False,
        worker_hijack_root_logger=False,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options={
            "visibility_timeout": VISIBILITY_S,
            "socket_timeout": 5,
            "socket_connect_timeout": 5,
            "socket_keepalive": True,
            "retry_on_timeout": True,
        },
    )
    stop = threading.Event()
    runners = Runners(config.folder)

    def run_shard(shard_id: str) -> None:
        with structlog.contextvars.bound_contextvars(worker=config.name):
            try:
                agent.run_shard(str(shard_id), config, stop, runners)
            except RelayError as exc:
                # the lease runs out and the relay queues the shard again
                log.error("shard not run", shard=shard_id, why=str(exc))

    app.task(run_shard, name=TASK)

    def ready(sender: Any = None, **_: Any) -> None:
        runners.start()  # here, in the main thread: what it starts ends with the thread that started it
        threading.Thread(target=greeting.keep_greeting, args=(config, stop), name="hello", daemon=True).start()

    def leaving(**_: Any) -> None:
        stop.set()

    def gone(**_: Any) -> None:
        runners.close()

    signals.worker_shutdown.connect(gone, weak=False)
    signals.worker_ready.connect(ready, weak=False)
    signals.worker_shutting_down.connect(leaving, weak=False)
    return app
