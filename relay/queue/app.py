"""The Celery app of the relay's own queues. Messages carry ids, never state; tasks are sent after the commit.

Every setting here prevents a loss or a double that was measured: late acknowledgement (a killed worker's message comes
back), a prefetch of one (a stuck worker hoards nothing), no queue made by a typo, no results, timeouts on the socket.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from celery import Celery, bootsteps, signals

from relay import alive
from relay.queue import engines
from relay.queue.names import QUEUES, ROUTE


def make_app(broker_url: str, extra_queues: tuple[str, ...] = ()) -> Celery:
    """A Celery app on ``broker_url``; ``extra_queues`` are the workers' (relay.queue.names.shard_queue)."""
    app = new_app("relay", broker_url, (*QUEUES, *extra_queues), default_queue=ROUTE)
    app.set_current()
    return app


def new_app(name: str, broker_url: str, queues: tuple[str, ...], *, default_queue: str) -> Celery:
    """A Celery app with the settings that the relay's processes and its workers share. It knows ``queues`` only.
    ValueError for a broker that it does not run on."""
    signals.setup_logging.connect(_keep_our_logs)
    file = alive.path()
    address, _ = engines.split(broker_url)
    amqp = engines.kind_of(broker_url) == "amqp"
    app = Celery(name, broker=address, set_as_current=False)
    app.conf.update(
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        worker_prefetch_multiplier=1,
        task_ignore_result=True,
        task_create_missing_queues=False,
        task_queues=[engines.make_queue(broker_url, queue) for queue in queues],
        task_default_queue=default_queue,
        task_serializer="json",
        accept_content=["json"],
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options=engines.transport_options(broker_url),
        # a broker that has just come up, or lost its leader, is waited for
        broker_connection_retry=True,
        # its channel is a queue that no cluster keeps; nobody controls our workers by it
        worker_enable_remote_control=not amqp,
        worker_send_task_events=False,
        worker_hijack_root_logger=False,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        task_store_errors_even_if_ignored=False,
    )
    if file is not None:
        app.steps["worker"].add(_alive_step(file))
    return app


def _alive_step(file: Path) -> type[bootsteps.StartStopStep]:
    """Celery's way to do something whenever the worker's own loop turns."""

    class Alive(bootsteps.StartStopStep):  # type: ignore[misc]
        requires = ("celery.worker.components:Timer",)

        def start(self, worker: Any) -> None:
            alive.touch(file)
            self.timer = worker.timer.call_repeatedly(alive.EVERY_S, alive.touch, (file,), priority=10)

        def stop(self, worker: Any) -> None:
            self.timer.cancel()

    return Alive


def _keep_our_logs(**_: object) -> None:
    """Celery leaves logging alone where somebody answers this signal: relay.logs has set it up."""
