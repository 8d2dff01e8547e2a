"""A real web process with a real git upstream, for tests of the worker."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import uvicorn
from factories import make_run, shard_spec
from sqlalchemy import Engine, select

from relay.settings import Settings
from relay.store import results, shards
from relay.store.db import open_engine, reading
from relay.store.schema import result as result_table
from relay.store.schema import shard
from relay.web.app import create_app
from relay.worker.config import WorkerConfig

SOURCE = """
import time
import torch
from torch.testing._internal.common_utils import TestCase
from torch.testing._internal.common_device_type import instantiate_device_type_tests, dtypes


class TestSmall(TestCase):
    @dtypes(torch.float32, torch.int64)
    def test_adds(self, device, dtype):
        x = torch.ones(3, device=device, dtype=dtype)
        self.assertEqual((x + x).cpu(), torch.full((3,), 2, dtype=dtype))

    def test_fails(self, device):
        self.assertEqual(1, 2)

    @dtypes(torch.float32, torch.float16, torch.int64, torch.int32, torch.bool)
    def test_slow(self, device, dtype):
        time.sleep(0.7)


instantiate_device_type_tests(TestSmall, globals())
"""
FILE = "test/test_small.py"
ADDS, FAILS, SLOW = (f"{FILE}::TestSmall::{name}" for name in ("test_adds", "test_fails", "test_slow"))


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@contextlib.contextmanager
def worker_api(settings: Settings) -> Iterator[httpx2.Client]:
    """A client of the worker API of a web process in a thread; its database is there already."""
    config = uvicorn.Config(create_app(settings), host="127.0.0.1", port=0, log_level="critical")
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run)
    thread.start()
    while not running.started:
        time.sleep(0.01)
    port = running.servers[0].sockets[0].getsockname()[1]
    try:
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}/worker", trust_env=False, timeout=30) as client:
            yield client
    finally:
        running.should_exit = True
        thread.join(10)


class Relay:
    """The relay's web process, as a process of its own so that it can be killed."""

    def __init__(self, tmp: Path) -> None:
        upstream = tmp / "upstream"
        (upstream / "test").mkdir(parents=True)
        (upstream / FILE).write_text(SOURCE)
        git = ["git", "-C", str(upstream), "-c", "user.name=t", "-c", "user.email=t@example.org"]
        for args in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "base"]):
            subprocess.run([*git, *args], check=True)
        self.commit = subprocess.run(
            [*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
        ).stdout.strip()
        self.port = free_port()
        self.settings = Settings(
            data_dir=tmp / "relay",
            upstream_url=str(upstream),
            worker_key="key",
            port=self.port,
            heartbeat_s=0.5,
        )
        self.env = {
            **{k: v for k, v in os.environ.items() if not k.startswith("RELAY_")},
            "RELAY_DATA_DIR": str(self.settings.data_dir),
            "RELAY_UPSTREAM_URL": str(upstream),
            "RELAY_WORKER_KEY": "key",
            "RELAY_PORT": str(self.port),
            "RELAY_HEARTBEAT_S": "0.5",
        }
        self.settings.data_dir.mkdir()
        self.log = tmp / "web.log"
        self.config = WorkerConfig(
            url=f"http://127.0.0.1:{self.port}",
            key="key",
            name="w1",
            queue="shards.spyre",
            folder=tmp / "worker",
            give_up_s=60,
        )
        self.process: subprocess.Popen[bytes] | None = None
        self.start()
        self.engine: Engine = open_engine(self.settings.database)
        self.run_id = ""

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()
        self.engine.dispose()

    def start(self) -> None:
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([sys.executable, "-m", "relay.web"], env=self.env, stdout=log, stderr=log)
        deadline = time.monotonic() + 180  # a loaded machine imports for a minute
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return
            time.sleep(0.05)
        raise AssertionError(self.log.read_text())

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def shard(self, *tests: str, **over: Any) -> str:
        """A run of one shard, queued; returns the shard's id."""
        spec = shard_spec(*tests, commit=self.commit, **over)
        self.run_id = make_run(self.engine, head_sha=self.commit, downstream=f"spyre/{time.monotonic_ns()}")
        with self.engine.begin() as conn:
            (key,) = shards.add(
                conn, dispatch_id=self.run_id, side="head", queue="shards.spyre", specs=[spec], now=time.time()
            )
        return str(key)

    def row(self, key: str) -> Any:
        with reading(self.engine) as conn:
            return conn.execute(select(shard).where(shard.c.id == key)).one()

    def message(self, key: str) -> str | None:
        """Of a shard of one variant."""
        with reading(self.engine) as conn:
            text: str | None = conn.execute(
                select(result_table.c.message).where(result_table.c.shard_id == key)
            ).scalar_one()
        return text

    def outcomes(self, key: str) -> dict[str, str]:
        with reading(self.engine) as conn:
            rows = conn.execute(select(result_table).where(result_table.c.shard_id == key)).all()
            assert len(rows) == len(results.done_keys(conn, key))
        return {row.variant: row.outcome for row in rows}


def wait_for(condition: Any, seconds: float = 180.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def processes_of(session_text: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                if session_text in (entry / "cmdline").read_bytes().decode(errors="replace"):
                    found.append(int(entry.name))
    return found
