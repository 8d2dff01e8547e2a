"""The relay under chaos: every process real and of its own, what it talks to real servers, and handles to hurt each.

``relay up`` with its web, pump (whose chores sweep), relay and select processes; emulator workers, one of them in a
laboratory behind a network of its own; Redis and PostgreSQL, or the embedded broker and SQLite; the local GitHub and
HUD.
What dies is started again by the relay's own supervisor, and what that does not look after (the supervisor itself,
workers, Redis) by the harness, as a machine's service manager would.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import private_brokers
import private_postgres
import psutil
from sqlalchemy import Engine, text
from under_chaos import spaces
from under_chaos.clocks import Clock
from under_chaos.upstream import SmallUpstream

from relay.demo.children import ChildProcess, start
from relay.demo.play import toml
from relay.procs import Child, Supervisor
from relay.store.db import open_engine

ROOT = Path(__file__).resolve().parents[2]
UPSTREAM = "pytorch/pytorch"
OWN_CI, OURS = "example-org/backend-ci", "torch-spyre/torch-spyre"
ALLOWLIST = f"""\
L4:
  - {OWN_CI}
  - {OURS}:
      executor: workers
      device: spyre
      trust: [MEMBER]
"""
PROCESSES = {
    "web": ("relay.web",),
    "pump": ("relay.pump",),
    "relay": ("relay.queue.tasks", "route,outbox"),
    "select": ("relay.queue.tasks", "select"),
    "broker": ("-server",),  # Valkey's or Redis's
    "emulator": ("-m", "relay.worker"),
}


class RelayUnderChaos:
    """``database``: postgresql (with Redis, and two workers) or sqlite (with the embedded broker and one worker).
    ``workers``: whether there are any."""

    def __init__(self, folder: Path, database: str, workers: bool = True) -> None:
        self.folder, self.database, self.with_workers = folder, database, workers
        self.data = folder / "data"
        self.artifacts = folder / "artifacts"
        self.disk = folder / "disk"
        self.secret, self.key, self.hud_key = (secrets.token_urlsafe(12) for _ in range(3))
        self.http = httpx2.Client(trust_env=False, timeout=20)
        self.lab: spaces.Lab | None = None
        self.redis: private_brokers.Server | None = None
        self.postgres: private_postgres.Cluster | None = None
        self.keeper = Supervisor()
        self._up: ChildProcess | None = None
        self._ups = 0
        self._away = False
        self.engine: Engine
        self.upstream: SmallUpstream

    # ------------------------------------------------------------------------------------------------------- starting

    def start(self, stack: contextlib.ExitStack) -> None:
        self.data.mkdir(parents=True)
        self.upstream = SmallUpstream(self.folder / "upstream")
        self.clock = Clock(self.folder)
        if spaces.inside():
            spaces.loopback()
            for folder, size in ((self.artifacts, "8m"), (self.disk, "400m")):
                spaces.small_disk(folder, size)
                stack.callback(spaces.remove_disk, folder)
        if self.database == "postgresql":
            url, broker = self._servers(stack)
        else:
            url, broker = f"sqlite:///{self.disk / 'data' / 'relay.sqlite3'}", ""
            self.data = self.disk / "data"
            self.data.mkdir(parents=True)
        self._github(stack)
        self._configure(url, broker)
        self.start_up()
        stack.callback(self.stop_up)
        self.engine = open_engine(url)
        stack.callback(self.engine.dispose)
        if not self.with_workers:
            return
        if self.database == "postgresql":
            stack.callback(self.keeper.stop)
            self._worker("near", [], "127.0.0.1")
            if spaces.inside():
                self.wait(self.workers, "the first worker does not greet")
                # the other one need not export the op database again
                shutil.copytree(self.folder / "near", self.folder / "lab", ignore=lambda folder, names: [
                    name for name in names if folder != str(self.folder / "near") or not name.startswith("opdb-")
                ])  # fmt: skip
                self.lab = spaces.Lab()
                stack.callback(self.lab.close)
                self._worker("lab", self.lab.enter, spaces.HERE)
        self.wait(lambda: self.workers() >= (2 if self.lab else 1), "the workers do not greet")

    def _servers(self, stack: contextlib.ExitStack) -> tuple[str, str]:
        self.postgres = stack.enter_context(private_postgres.private_cluster())
        place = "pg_default"
        with self.admin() as conn:
            if spaces.inside():
                space = self.disk / "tables"
                space.mkdir(mode=0o700)
                who = private_postgres._unprivileged()
                if who:
                    os.chown(space, who["user"], who["group"])  # type: ignore[arg-type]
                conn.execute(text(f"CREATE TABLESPACE small LOCATION '{space}'"))
                place = "small"
            conn.execute(text(f"CREATE DATABASE relay TABLESPACE {place}"))
        broker = self.folder / "redis"
        broker.mkdir(mode=0o777)
        broker.chmod(0o777)
        self.port_of_redis = private_brokers.free_ports(1)[0]
        more = ("--bind", "0.0.0.0", "--protected-mode", "no") if spaces.inside() else ()
        self.redis = private_brokers.redis_server(broker, self.port_of_redis, *more)
        self.redis.start()
        stack.callback(self.redis.kill)
        return self.postgres.url("relay"), f"redis://127.0.0.1:{self.port_of_redis}/0"

    @contextlib.contextmanager
    def admin(self) -> Iterator[Any]:
        """A connection to PostgreSQL beside the relay's database."""
        assert self.postgres is not None
        engine = open_engine(self.postgres.url()).execution_options(isolation_level="AUTOCOMMIT")
        try:
            with engine.connect() as conn:
                yield conn
        finally:
            engine.dispose()

    def _github(self, stack: contextlib.ExitStack) -> None:
        command = [sys.executable, "-m", "relay.demo.github", "--dir", str(self.folder / "github")]
        env = {"RELAY_HUD_BOT_KEY": self.hud_key}
        child = start("github", command, env, self.folder / "logs")
        stack.callback(child.stop, 5)
        said = child.wait_ready(300)
        self.github, self._pem, self._app = said["url"], Path(said["pem"]).read_text(), said["app_id"]

    def _configure(self, database: str, broker: str) -> None:
        (self.folder / "allowlist.yml").write_text(ALLOWLIST)
        self.port = private_brokers.free_ports(1)[0]
        self.url = f"http://127.0.0.1:{self.port}"
        values = {
            "data_dir": str(self.data),
            "database_url": database,
            "broker_url": broker,
            "host": "0.0.0.0" if spaces.inside() else "127.0.0.1",
            "port": self.port,
            "public_url": self.url,
            "upstream_repo": UPSTREAM,
            "upstream_url": str(self.upstream.path),
            "allowlist": str(self.folder / "allowlist.yml"),
            "configs_dir": str(ROOT / "test_configs" / "spyre"),
            "artifacts_url": str(self.artifacts),
            "github_api_url": self.github,
            "github_app_id": str(self._app),
            "github_budget": 100_000,
            "hud_url": f"{self.github}/api/crcr/results",
            "oidc_issuers": [{"issuer": self.github}],
            "callbacks_per_minute": 100_000.0,
            "callbacks_burst": 10_000,
            "explore_share": 0.0,
            "heartbeat_s": 1.0,
        }
        (self.folder / "relay.toml").write_text(toml(values))
        self.control("PUT", f"ci/{OWN_CI}", {"callback_url": f"{self.url}/github/callback", "work_s": 0.5})

    def _environment(self) -> dict[str, str]:
        env = {
            "RELAY_WEBHOOK_SECRETS": json.dumps([self.secret]),
            "RELAY_WORKER_KEY": self.key,
            "RELAY_GITHUB_PRIVATE_KEY": self._pem,
            "RELAY_HUD_BOT_KEY": self.hud_key,
        }
        return env | self.clock.env

    def start_up(self) -> None:
        """``relay up``, and returns when it says that it is ready."""
        self._ups += 1
        more = [] if self.with_workers and self.database == "sqlite" else ["--no-worker"]
        command = [sys.executable, "-m", "relay.cli", "up", *more, "--config", str(self.folder / "relay.toml")]
        plain = spaces.PLAIN if spaces.inside() else []
        self._up = start(f"up-{self._ups}", [*plain, *command], self._environment(), self.folder / "logs")
        self._up.wait_ready(300)

    def stop_up(self) -> None:
        if self._up is not None:
            self._up.stop(15)

    def _worker(self, name: str, enter: list[str], host: str) -> None:
        env = {key: value for key, value in os.environ.items() if not key.startswith("RELAY_")} | {
            "RELAY_BROKER_URL": f"redis://{host}:{self.port_of_redis}/0",
            "RELAY_URL": f"http://{host}:{self.port}",
            "RELAY_WORKER_KEY": self.key,
            "RELAY_WORKER_NAME": name,
            "RELAY_WORKER_DIR": str(self.folder / name),
            "OMP_NUM_THREADS": "1",
        }
        plain = spaces.PLAIN if spaces.inside() else []
        command = [*enter, *plain, sys.executable, "-m", "relay.worker"]
        self.keeper.add(Child(name, command, env, self.folder / "logs" / f"{name}.log", nice=3))

    # -------------------------------------------------------------------------------------------------------- tending

    def tend(self) -> None:
        """What a service manager does: starts again what has ended."""
        self.keeper.step()
        if self._up is not None and self._up.process.poll() is not None and not self._away:
            self.start_up()

    def wait(self, true: Callable[[], Any], problem: str, seconds: float = 300.0) -> Any:
        deadline = time.monotonic() + seconds
        while not (found := true()):
            self.tend()
            if time.monotonic() > deadline:
                raise AssertionError(f"{problem} within {seconds:.0f} s")
            time.sleep(0.05)
        return found

    def pause(self, seconds: float) -> None:
        """Time goes by, and what dies is started again."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.tend()
            time.sleep(0.05)

    def pid(self, name: str) -> int:
        """Of a process of ``relay up``, of it itself (up), or of a worker."""
        for child in self.keeper.children:
            if child.name == name and child.process is not None:
                return child.process.pid
        assert self._up is not None
        if name == "up":
            return self._up.process.pid
        words = PROCESSES[name]
        for one in psutil.Process(self._up.process.pid).children():
            with contextlib.suppress(psutil.Error):
                line = one.cmdline()
                if all(any(word in part for part in line) for word in words) and not (
                    name == "select" and "route,outbox" in line
                ):
                    return one.pid
        raise LookupError(f"{name} does not run now")

    def kill(self, name: str) -> None:
        """kill -9 of a process that runs, waited for where it is being started again."""
        pid = self.wait(lambda: self._found(name), f"{name} does not come back", 30)
        os.kill(pid, signal.SIGKILL)

    def _found(self, name: str) -> int | None:
        with contextlib.suppress(LookupError, psutil.Error):
            return self.pid(name)
        return None

    # --------------------------------------------------------------------------------------------------------- seeing

    def control(self, method: str, path: str, body: Any = None) -> Any:
        """The local GitHub's own interface for tests."""
        answer = self.http.request(method, f"{self.github}/_control/{path}", json=body)
        answer.raise_for_status()
        return answer.json()

    def faults(self, *rules: dict[str, Any]) -> None:
        """How GitHub and HUD misbehave from now on."""
        self.control("POST", "faults", list(rules))

    def rows(self, query: str, **values: Any) -> list[Any]:
        """Evidence from the database."""
        with self.engine.connect().execution_options(read_only=True) as conn:
            return list(conn.execute(text(query), values).all())

    def workers(self) -> int:
        return int(self.rows("select count(*) from worker")[0][0])

    def logs(self) -> Iterator[Path]:
        for folder in (self.folder / "logs", self.data / "logs"):
            yield from sorted(folder.glob("*.log"))
