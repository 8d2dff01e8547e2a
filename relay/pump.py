"""The pump: looks at the database for due work and hands it to the broker; ends leases whose heartbeats stopped.

It keeps nothing in memory that matters, so any number may run and any may be killed. The broker may forget everything:
the pump keeps a mark in it, and when the mark is gone everything outstanding is handed over again.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Sequence

import structlog
from celery import Celery
from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError as DatabaseError

from relay import alive, chores
from relay.logs import setup as setup_logs
from relay.procs import on_signals
from relay.queue import engines
from relay.queue.app import make_app
from relay.queue.names import OUTBOX
from relay.reload import follow
from relay.services import leasing
from relay.services.readiness import BROKER
from relay.services.stepping import Steps
from relay.settings import Settings, load
from relay.store import chores as chores_stored
from relay.store import due, tokens
from relay.store.db import open_engine, reading

log = structlog.get_logger(__name__)
MARK_EVERY_S = 1.0
WINDOW = 100
"""Messages a queue is given at a time: some seconds of work, so that what is handed over is begun before it is due
again. Without a bound a backlog of thousands is handed over again and again, and workers sort out copies."""
WINDOWS = {OUTBOX: 20}
"""Where a message is more work than elsewhere: effects are sent several at a time."""
TIDY_EVERY_S = 60.0
NOTE_EVERY_S = 30.0
CHORES_END_S = 2.0


class Pump:
    """``step`` does one round; ``send(task, ids, queue)``, ``mark()`` and ``depth(queue)`` (messages that wait there)
    reach the broker and may raise its errors. ``steps`` looks after the machine's clock."""

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        send: Callable[[str, Sequence[str], str], None],
        mark: Callable[[], bool],
        depth: Callable[[str], int],
        clock: Callable[[], float] = time.time,
        steps: Steps | None = None,
    ) -> None:
        self.engine = engine
        self.settings = settings
        self.send = send
        self.mark = mark
        self.depth = depth
        self.clock = clock
        self.steps = steps
        self._marked_at = 0.0
        self._tidied_at = 0.0
        self._broker_ok = True
        self._noted: tuple[float, str | None] = (0.0, None)

    def step(self) -> int:
        """Returns how many ids were handed over."""
        if self.steps is not None and self.steps.look(self.engine, self.settings.lease_s):
            self._marked_at = self._tidied_at = 0.0
            self._noted = (0.0, None)
        now = self.clock()
        leasing.reap(self.engine, self.settings, now)
        self._tidy(now)
        self._look_for_a_flush(now)
        with reading(self.engine) as conn:
            queues = due.queues(conn, now)
        try:
            room = {queue: WINDOWS.get(queue, WINDOW) - self.depth(queue) for queue in queues}
        except engines.ERRORS as exc:
            self._broker_failed("depth", exc)
            return 0
        if not any(free > 0 for free in room.values()):
            return 0
        with self.engine.begin() as conn:
            work = due.take(conn, now, self.settings.requeue_s, room)
        sent = 0
        for item in work:
            try:
                self.send(item.task, item.ids, item.queue)
                sent += len(item.ids)
            except engines.ERRORS as exc:
                # the row is due again after its requeue time; nothing is lost but time
                self._broker_failed(item.task, exc)
                break
        return sent

    def _broker_failed(self, doing: str, exc: Exception) -> None:
        if self._broker_ok:
            log.warning("broker does not answer", doing=doing, error=str(exc))
        self._broker_ok = False

    def _note_broker(self, now: float, error: str | None) -> None:
        """For the status page: at once when something changed, else now and then."""
        at, last = self._noted
        if now - at < NOTE_EVERY_S and (last is None) == (error is None):
            return
        self._noted = (now, error)
        with self.engine.begin() as conn:
            chores_stored.note(conn, BROKER, now, error=error, again_s=2 * NOTE_EVERY_S)

    def _tidy(self, now: float) -> None:
        if now - self._tidied_at < TIDY_EVERY_S:
            return
        self._tidied_at = now
        with self.engine.begin() as conn:
            tokens.purge(conn, now - TIDY_EVERY_S * 2)  # room for the verifier's leeway

    def _look_for_a_flush(self, now: float) -> None:
        if now - self._marked_at < MARK_EVERY_S:
            return
        self._marked_at = now
        try:
            remembered = self.mark()
        except engines.ERRORS as exc:
            self._broker_failed("mark", exc)
            self._note_broker(now, f"{type(exc).__name__}: {exc}")
            return
        self._note_broker(now, None)
        if not remembered or not self._broker_ok:
            log.info("broker has no memory of us: everything outstanding is due again")
            with self.engine.begin() as conn:
                due.make_all_due(conn, now)
        self._broker_ok = True


def _last_seen(engine: Engine) -> float | None:
    """When a pump last told of itself, seconds since the epoch."""
    with reading(engine) as conn:
        row = chores_stored.get(conn, BROKER)
    return row.ran_at if row is not None else None


def make_sender(app: Celery, broker_url: str) -> Callable[[str, Sequence[str], str], None]:
    def send(task: str, ids: Sequence[str], queue: str) -> None:
        if queue not in app.amqp.queues:
            app.amqp.queues.add(engines.make_queue(broker_url, queue))  # a worker's: its hello named it
        app.send_task(task, args=list(ids), queue=queue, retry=False, ignore_result=True)

    return send


def run(settings: Settings, stop: threading.Event) -> None:
    """Rounds every ``poll_s`` until ``stop``. A database that is busy or away for a while is waited for."""
    engine = open_engine(settings.database)
    beside = threading.Thread(target=chores.run, args=(settings, stop), name="chores", daemon=True)
    beside.start()
    url = settings.broker_url
    app, mark = make_app(url), engines.make_mark(url)
    steps, known = Steps(), False
    pump = Pump(engine, settings, make_sender(app, url), mark, engines.make_depth(app, url), steps=steps)
    file = alive.path()
    while not stop.is_set():
        alive.touch(file)
        try:
            if not known:
                steps.began(engine, settings.lease_s, _last_seen(engine))
                known = True
            pump.step()
        except DatabaseError as exc:
            log.warning("database does not answer", error=str(exc.orig))
            stop.wait(1.0)
        stop.wait(settings.poll_s)
    beside.join(CHORES_END_S)
    mark.close()
    app.close()
    engine.dispose()


def main() -> None:
    setup_logs("pump")
    stop = threading.Event()
    on_signals((signal.SIGTERM, signal.SIGINT), stop.set)
    settings = load()
    follow(settings, stop)
    run(settings, stop)


if __name__ == "__main__":
    main()
