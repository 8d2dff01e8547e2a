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
from celery.worker import state

from relay.errors import RelayError
from relay.procs import for_handlers
from relay.queue.app import new_app
from relay.worker import agent
from relay.worker.config import WorkerConfig
from relay.worker.runners import Runners

log = structlog.get_logger(__name__)
TASK = "relay.run_shard"


def make_app(config: WorkerConfig, runners: Runners, stop: threading.Event) -> Celery:
    """The app of one worker, which runs shards on ``runners`` and closes them at its end. When it shuts down, its shard
    may end within ``drain_s`` seconds, or is handed back; then ``stop`` is set."""
    app = new_app("relay-worker", config.broker_url, (config.queue,), default_queue=config.queue)
    app.conf.update(worker_pool="solo", worker_concurrency=1)
    done = [0]

    def run_shard(shard_id: str) -> None:
        with structlog.contextvars.bound_contextvars(worker=config.name):
            try:
                agent.run_shard(str(shard_id), config, stop, runners)
            except RelayError as exc:
                # the lease runs out and the relay queues the shard again
                log.error("shard not run", shard=shard_id, why=str(exc))
        done[0] += 1
        if 0 < config.shards <= done[0]:
            log.info("enough", shards=done[0])
            state.should_stop = 0  # Celery's loop ends with this exit code when it has acknowledged the message

    app.task(run_shard, name=TASK)

    def told() -> None:
        # before Celery listens to signals, too, and while it waits for a broker that has never answered
        stop.wait()
        state.should_stop = 0

    def end() -> None:
        # Celery takes nothing new from here on, and ends when the shard that runs has
        if config.drain_s > 0:
            log.info("stopping", drain_s=config.drain_s)
            late = threading.Timer(config.drain_s, stop.set)
            late.daemon = True
            late.start()
        else:
            stop.set()

    # Celery says it in its handler, and the thread that this interrupts may just wait for `stop`
    tell = for_handlers(end)

    def leaving(**_: Any) -> None:
        tell()

    def gone(**_: Any) -> None:
        runners.close()

    signals.worker_shutdown.connect(gone, weak=False)
    signals.worker_shutting_down.connect(leaving, weak=False)
    threading.Thread(target=told, name="stop", daemon=True).start()
    return app


def serve(app: Celery, config: WorkerConfig) -> None:
    """Takes shards from the broker until the worker is told to stop; for the main thread."""
    app.worker_main(
        ["--quiet", "worker", "--pool=solo", f"--queues={config.queue}", f"--hostname={config.name}@%h",
         "--loglevel=WARNING", "--without-gossip", "--without-mingle", "--without-heartbeat"]
    )  # fmt: skip
