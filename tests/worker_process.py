"""Emulator workers as processes of their own, of any release, beside a web process of any release (worker_web)."""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import select
from worker_web import Relay, wait_for

from relay import broker
from relay.queue.app import new_app
from relay.queue.names import shard_queue
from relay.store.db import reading
from relay.store.schema import worker
from relay.worker import greeting

ROOT = Path(__file__).resolve().parent.parent
QUEUE = shard_queue("spyre", platform.machine(), greeting.torch_version())


class Workers:
    """Workers of ``web`` by name, on a broker of their own; ``send`` is what the pump does."""

    def __init__(self, web: Relay, broker_url: str, tmp: Path) -> None:
        self.web, self.tmp = web, tmp
        self.env = {key: value for key, value in os.environ.items() if not key.startswith("RELAY_")} | {
            "RELAY_BROKER_URL": broker_url,
            "RELAY_URL": web.config.url,
            "RELAY_WORKER_KEY": "key",
            "RELAY_WORKER_DIR": str(web.config.folder),
        }
        self.app = new_app("sender", broker_url, (QUEUE,), default_queue=QUEUE)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, code: Path = ROOT, **env: str) -> None:
        """Returns when the relay has heard of it."""
        told = {**self.env, "RELAY_WORKER_NAME": name, "PYTHONPATH": str(code), "PYTHONSAFEPATH": "1", **env}
        with (self.tmp / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", "relay.worker"], env=told, stdout=log, stderr=log, cwd=self.tmp
            )
        wait_for(lambda: self._enrolled(name))

    def _enrolled(self, name: str) -> bool:
        assert self.processes[name].poll() is None, self.said(name)
        with reading(self.web.engine) as conn:
            return name in conn.execute(select(worker.c.name)).scalars().all()

    def send(self, shard_id: str) -> None:
        self.app.send_task("relay.run_shard", args=[shard_id], queue=QUEUE)

    def terminate(self, name: str, seconds: float = 60.0) -> int:
        """SIGTERM; -> the exit code."""
        process = self.processes.pop(name)
        process.send_signal(signal.SIGTERM)
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"{name} does not end: {self.said(name)}") from None

    def said(self, name: str) -> str:
        return (self.tmp / f"{name}.log").read_text(errors="replace")[-4000:]


@contextlib.contextmanager
def workers(tmp: Path) -> Iterator[Workers]:
    """A web process, a broker, and no worker yet."""
    server = broker.prepare(tmp)
    process = subprocess.Popen(server.command, stdout=subprocess.DEVNULL)
    try:
        wait_for(server.socket.exists, 10)
        web = Relay(tmp)
        made = Workers(web, server.url, tmp)
        try:
            yield made
        finally:
            for one in made.processes.values():
                one.kill()
                one.wait()
            made.app.close()
            web.kill()
            web.engine.dispose()
    finally:
        process.kill()
        process.wait()
        server.remove()
