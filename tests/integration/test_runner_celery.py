"""The worker process as `relay up` starts it: a real broker, a real web process, and kill -9 in the middle."""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import Celery
from kombu import Queue
from sqlalchemy import select, update
from worker_web import ADDS, SLOW, Relay, processes_of, wait_for

from relay import broker as brokers
from relay.queue.names import shard_queue
from relay.store.db import reading
from relay.store.schema import shard, worker
from relay.worker import greeting

QUEUE = shard_queue("spyre", platform.machine(), greeting.torch_version())
pytestmark = [pytest.mark.torch, pytest.mark.broker]


class Emulator:
    def __init__(self, web: Relay, broker_url: str, tmp: Path) -> None:
        self.web, self.log, self.tmp = web, tmp / "emulator.log", tmp
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("RELAY_")} | {
            "RELAY_BROKER_URL": broker_url,
            "RELAY_URL": web.config.url,
            "RELAY_WORKER_KEY": "key",
            "RELAY_WORKER_NAME": "emulator-1",
            "RELAY_WORKER_DIR": str(web.config.folder),
        }
        self.app = Celery("sender", broker=broker_url, set_as_current=False)
        self.app.conf.update(task_queues=[Queue(QUEUE)], task_create_missing_queues=False)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        """Returns the seconds until the worker said hello."""
        with self.web.engine.begin() as conn:
            conn.execute(worker.delete())
        began = time.monotonic()
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "relay.worker"], env=self.env, stdout=log, stderr=log, cwd=self.tmp
            )
        wait_for(self.enrolled)
        return time.monotonic() - began

    def enrolled(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text()
        with reading(self.web.engine) as conn:
            return conn.execute(select(worker.c.name)).scalars().all() == ["emulator-1"]

    def send(self, shard_id: str) -> None:
        self.app.send_task("relay.run_shard", args=[shard_id], queue=QUEUE)


@pytest.fixture
def emulator(tmp_path: Path) -> Iterator[Emulator]:
    server = brokers.prepare(tmp_path)
    with open(tmp_path / "broker.log", "wb") as log:
        process = subprocess.Popen(server.command, stdout=log, stderr=log)
    wait_for(server.socket.exists, 10)
    web = Relay(tmp_path)
    started = Emulator(web, server.url, tmp_path)
    yield started
    if started.process is not None:
        started.process.kill()
        started.process.wait()
    web.kill()
    web.engine.dispose()
    started.app.close()
    process.kill()
    process.wait()
    server.remove()


def test_a_killed_worker_loses_no_variant(emulator: Emulator) -> None:
    web = emulator.web
    emulator.start()
    modules = Path(f"/proc/{emulator.process.pid}/maps")  # type: ignore[union-attr]
    with contextlib.suppress(PermissionError):  # it hides itself; root sees it
        assert "libtorch" not in modules.read_text()
    key = web.shard(SLOW, ADDS)
    emulator.send(key)
    wait_for(lambda: web.outcomes(key))
    mark = str(web.config.folder / "tmp")
    emulator.process.kill()  # type: ignore[union-attr]
    emulator.process.wait()  # type: ignore[union-attr]
    wait_for(lambda: not processes_of(mark), 5)
    before = web.outcomes(key)
    assert 0 < len(before) < 7
    # what the reaper and the pump do: the lease is over, the shard is queued again
    with web.engine.begin() as conn:
        conn.execute(update(shard).where(shard.c.id == key).values(state="queued", lease_token=None))
    emulator.start()
    emulator.send(key)
    emulator.send(key)  # twice: one of them finds the shard leased or done
    wait_for(lambda: web.row(key).state == "done")
    assert len(web.outcomes(key)) == 7
    assert web.row(key).fence == 2
    assert set(web.outcomes(key).values()) == {"passed"}


def test_a_terminated_worker_ends_within_seconds_and_leaves_nothing(emulator: Emulator) -> None:
    web = emulator.web
    emulator.start()
    key = web.shard(SLOW)
    emulator.send(key)
    wait_for(lambda: web.outcomes(key))
    emulator.process.terminate()  # type: ignore[union-attr]
    emulator.process.wait(15)  # type: ignore[union-attr]
    assert not processes_of(str(web.config.folder / "tmp"))
    assert list((web.config.folder / "tmp").iterdir()) == []


def test_a_worker_that_is_told_too_little_says_so_and_ends(tmp_path: Path) -> None:
    env = {k: v for k, v in os.environ.items() if not k.startswith("RELAY_")}
    done = subprocess.run([sys.executable, "-m", "relay.worker"], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "RELAY_URL is not set" in done.stderr
    assert "Traceback" not in done.stderr


TOLD_EARLY = """
import sys, threading
from pathlib import Path
from relay.worker import adapters
from relay.worker.celery_app import make_app, serve
from relay.worker.config import WorkerConfig
from relay.worker.runners import Runners

config = WorkerConfig("http://127.0.0.1:1", "key", "w", queue=sys.argv[1], broker_url="redis://127.0.0.1:1/0",
                      folder=Path(sys.argv[2]))
stop = threading.Event()
app = make_app(config, Runners(config.folder, adapters.of(config.device, "")), stop)
stop.set()  # as a signal does that comes before Celery listens to signals
serve(app, config)
"""


def test_a_worker_that_is_told_to_stop_before_a_broker_ever_answered_ends(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TOLD_EARLY, QUEUE, str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
