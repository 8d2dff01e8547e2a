"""The relay as separate processes, each of its own release if need be, on any broker and database: web, pump, and the
workers of its queues, against the local GitHub."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
from outbound_relay import pull_request
from outbound_servers import World, local_github
from private_brokers import free_ports
from sqlalchemy import Engine, select

from relay.demo.downstream import DownstreamCI
from relay.store.db import open_engine, reading
from relay.store.schema import dispatch

ROOT = Path(__file__).resolve().parent.parent
SECRET = "webhook-secret"
DOWNSTREAM = "example-org/backend-ci"
ALLOWLIST = f"L4:\n  - {DOWNSTREAM}\n"
TASKS = {"relay": "route,outbox", "select": "select"}
_numbers = itertools.count(1)


class Fleet:
    """``start`` and ``stop`` processes by name: web, pump, relay, select. ``env`` is everybody's."""

    def __init__(self, folder: Path, world: World, database_url: str, broker_url: str, **more: str) -> None:
        self.folder, self.world = folder, world
        self.port = free_ports(1)[0]
        self.url = f"http://127.0.0.1:{self.port}"
        (folder / "allowlist.yml").write_text(ALLOWLIST)
        (folder / "key.pem").write_text(world.settings.github_private_key.get_secret_value())
        self.database = database_url
        self.env = {key: value for key, value in os.environ.items() if not key.startswith(("RELAY_", "OTEL_"))} | {
            "RELAY_DATA_DIR": str(folder / "data"),
            "RELAY_DATABASE_URL": database_url,
            "RELAY_BROKER_URL": broker_url,
            "RELAY_PORT": str(self.port),
            "RELAY_ALLOWLIST": str(folder / "allowlist.yml"),
            "RELAY_WEBHOOK_SECRETS": json.dumps([SECRET]),
            "RELAY_GITHUB_API_URL": world.url,
            "RELAY_GITHUB_APP_ID": world.settings.github_app_id,
            "RELAY_GITHUB_PRIVATE_KEY": world.settings.github_private_key.get_secret_value(),
            "RELAY_HUD_URL": world.settings.hud_url,
            "RELAY_HUD_BOT_KEY": world.settings.hud_bot_key.get_secret_value(),
            "RELAY_OIDC_ISSUERS": json.dumps([{"issuer": world.url}]),
            **more,
        }
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        world.hub.ci[DOWNSTREAM] = DownstreamCI(
            DOWNSTREAM, f"{self.url}/github/callback", world.hub.ledger, work_s=0.05
        )
        self.engine: Engine = open_engine(database_url)

    def start(self, *names: str, code: Path = ROOT, **env: str) -> None:
        """Starts processes of the release whose sources are at ``code``."""
        for name in names:
            command = [sys.executable, "-m"]
            if name in TASKS:
                command += ["relay.queue.tasks", TASKS[name], "--concurrency", "4" if name == "relay" else "1"]
            else:
                command.append(f"relay.{name}")
            # the folder of the sources stands first: what is installed is another release
            told = {**self.env, "PYTHONPATH": str(code), "PYTHONSAFEPATH": "1"}
            told |= {"RELAY_ALIVE_FILE": str(self.alive(name)), **env}
            with (self.folder / f"{name}.log").open("ab") as log:
                self.processes[name] = subprocess.Popen(
                    command, env=told, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
                )
        if "web" in names:
            self.wait_for(self.ready, "the web process is not ready")

    def alive(self, name: str) -> Path:
        """What the process touches while its loop turns."""
        return self.folder / f"{name}.alive"

    def stop(self, name: str, number: int = signal.SIGTERM, seconds: float = 30.0) -> int:
        """Ends a process; -> its exit code."""
        process = self.processes.pop(name)
        process.send_signal(number)
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"{name} does not end: {self.said(name)}") from None

    def ready(self) -> bool:
        with contextlib.suppress(httpx2.HTTPError):
            return httpx2.get(f"{self.url}/readyz", trust_env=False).status_code == 200
        return False

    def said(self, *names: str) -> str:
        names = names or tuple(self.processes)
        return "\n".join(f"{n}: {(self.folder / f'{n}.log').read_text(errors='replace')[-3000:]}" for n in names)

    def lines(self, name: str) -> list[dict[str, Any]]:
        """A process's log; every line of it must be a JSON object."""
        return [json.loads(line) for line in (self.folder / f"{name}.log").read_text().splitlines()]

    def wait_for(self, what: Callable[[], Any], problem: str, seconds: float = 180.0) -> Any:
        deadline = time.monotonic() + seconds
        while not (found := what()):
            for name, process in self.processes.items():
                assert process.poll() is None, f"{name} ended: {self.said(name)}"
            assert time.monotonic() < deadline, f"{problem}: {self.said()}"
            time.sleep(0.03)
        return found

    # ------------------------------------------------------------------------------------------------------- an event

    def open(self, number: int) -> str:
        """A pull request is opened; -> the delivery id."""
        raw = json.dumps(pull_request("opened", f"{number:040x}", number=number)).encode()
        guid = f"10000000-0000-4000-8000-{next(_numbers):012d}"
        headers = {
            "X-GitHub-Event": "pull_request", "X-GitHub-Delivery": guid, "Content-Type": "application/json",
            "X-Hub-Signature-256": "sha256=" + hmac.new(SECRET.encode(), raw, hashlib.sha256).hexdigest(),
        }  # fmt: skip
        answer = httpx2.post(f"{self.url}/github/webhook", content=raw, headers=headers, trust_env=False)
        assert answer.status_code == 202, answer.text
        return guid

    def run_of(self, delivery: str) -> Any:
        with reading(self.engine) as conn:
            return conn.execute(select(dispatch).where(dispatch.c.delivery_id == delivery)).one_or_none()

    def concluded(self, delivery: str) -> Any:
        """Waits until the event has come to its conclusion: the run is over, the HUD and the check run say so."""

        def over() -> Any:
            run = self.run_of(delivery)
            if run is None or run.state != "completed":
                return None
            shown = [row for key, row in list(self.world.hub.hud.rows.items()) if delivery in key]
            checks = [c for c in list(self.world.hub.ledger.check_runs.values()) if c["head_sha"] == run.head_sha]
            done = checks and all(check["status"] == "completed" for check in checks)
            return run if done and any(row["status"] == "completed" for row in shown) else None

        return self.wait_for(over, "the event came to no conclusion")

    def close(self) -> None:
        for name in list(self.processes):
            process = self.processes.pop(name)
            process.kill()
            process.wait()
        self.engine.dispose()


@contextlib.contextmanager
def fleet(folder: Path, database_url: str, broker_url: str, **env: str) -> Iterator[Fleet]:
    """A fleet of which nothing is started yet."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "github").mkdir()
    with local_github(folder / "github") as world:
        made = Fleet(folder, world, database_url, broker_url, **env)
        try:
            yield made
        finally:
            made.close()
