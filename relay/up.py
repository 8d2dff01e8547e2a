"""``relay up``: every process of the relay on one machine, with an embedded broker where none is configured."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import importlib.util
import json
import os
import secrets
import signal
import socket
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import structlog
from sqlalchemy import Engine

from relay import broker
from relay.errors import SettingsError
from relay.procs import Child, Supervisor, on_signals
from relay.queue import engines
from relay.queue.names import OUTBOX, ROUTE, SELECT
from relay.services import allowlists, providers
from relay.services.device_configs import load_device
from relay.services.documents import fetch_now
from relay.services.readers import make_reader
from relay.services.secret_files import webhook_secrets
from relay.settings import Settings
from relay.store.db import migrate, open_engine

log = structlog.get_logger(__name__)
READY_S = 60.0
BEHIND = 3
"""How far all others stand behind the web process and the broker, for somebody waits for its answers. Not further: what
else runs on the machine must not starve them."""


def check(settings: Settings, worker: bool = True) -> None:
    """Everything that would keep the processes from working, found before the first of them starts. SettingsError,
    ConfigError, AllowlistError."""
    if worker and importlib.util.find_spec("torch") is None:
        raise SettingsError(
            "torch is not installed, and the emulator worker needs it",
            "pip install torch==2.13.0 (a CPU build: see the README), or run the worker elsewhere with --no-worker",
        )
    check_port(settings)
    check_broker(settings)
    check_secrets(settings)
    load_device(settings.configs_dir)
    for document in (allowlists.DOCUMENT, providers.DOCUMENT):
        if document.place(settings) is None and (document is allowlists.DOCUMENT or document.source(settings)):
            document.read(settings)


def check_port(settings: Settings) -> int:
    """The port to listen on: the one that is set, or for 0 one that is free. SettingsError."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            return int(probe.getsockname()[1])
    except OSError as exc:
        hint = "set port (RELAY_PORT) to a free one, or stop what listens there"
        if isinstance(exc, socket.gaierror) or exc.errno == errno.EADDRNOTAVAIL:
            hint = "set host (RELAY_HOST) to an address of this machine"
        raise SettingsError(f"cannot listen on {settings.host}:{settings.port}: {exc.strerror}", hint) from exc


def check_secrets(settings: Settings) -> None:
    """Where secrets are said to be there is something to be read; afterwards it may go and come, as in a rotation.
    SettingsError."""
    places = {"secrets_dir": settings.secrets_dir, "webhook_secrets_file": settings.webhook_secrets_file}
    for name, place in places.items():
        try:
            if place and name == "secrets_dir":
                os.listdir(place)
            elif place:
                Path(place).read_bytes()
        except OSError as exc:
            hint = "give a folder or file that is there and that this user may read"
            raise SettingsError(f"{name}: {place}: {exc.strerror}", hint) from exc


def check_broker(settings: Settings) -> None:
    """A broker that is set must answer now; later it may go away and come back. SettingsError."""
    if not settings.broker_url:
        return
    try:
        engines.ping(settings.broker_url)
    except (ValueError, *engines.ERRORS) as exc:
        hint = "start it, or leave broker_url out for an embedded one"
        raise SettingsError(f"broker_url: the broker does not answer: {exc}", hint) from exc


@contextlib.contextmanager
def alone(data_dir: Path) -> Iterator[None]:
    """Keeps a second ``relay up`` out of the folder: they would share logs, the worker's room and up.json.
    SettingsError."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        lock = (data_dir / "up.lock").open("w")
    except OSError as exc:
        raise SettingsError(f"data_dir: {data_dir}: {exc.strerror}", "give a folder that can be written") from exc
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            raise SettingsError(f"another relay runs in {data_dir}", "stop it, or give each its own data_dir") from exc
        yield


class Up:
    """The processes of one relay. ``start`` makes them, ``run`` looks after them until ``stop`` is set."""

    def __init__(self, settings: Settings, config: str | None, worker: bool = True, out: TextIO = sys.stdout) -> None:
        self.settings = settings
        self.config = config
        self.worker = worker
        self.out = out
        self.supervisor = Supervisor()
        self.broker: broker.Broker | None = None
        self.stop = threading.Event()

    def start(self) -> None:
        settings = self.settings
        logs = settings.data_dir.absolute() / "logs"
        env = {**os.environ, "RELAY_DATA_DIR": str(settings.data_dir.absolute()), "RELAY_PORT": str(settings.port)}
        if self.config:
            env["RELAY_CONFIG"] = str(Path(self.config).absolute())
        env["RELAY_WORKER_KEY"] = settings.worker_key.get_secret_value() or secrets.token_urlsafe(32)
        if settings.broker_url:
            env["RELAY_BROKER_URL"] = settings.broker_url
        else:
            self.broker = broker.prepare(settings.data_dir)
            env["RELAY_BROKER_URL"] = self.broker.url
            gone = self.broker.socket
            self.supervisor.add(
                Child("broker", self.broker.command, os.environ, logs / "broker.log", lambda: gone.unlink(True))
            )
        engine = open_engine(settings.database)
        migrate(engine)
        self._fetch_documents(engine)
        engine.dispose()
        python = [sys.executable, "-m"]
        self.supervisor.add(Child("web", [*python, "relay.web"], env, logs / "web.log"))
        self.supervisor.add(Child("pump", [*python, "relay.pump"], env, logs / "pump.log", nice=BEHIND))
        for name, queues, concurrency in (("relay", f"{ROUTE},{OUTBOX}", 6), ("select", SELECT, 1)):
            command = [*python, "relay.queue.tasks", queues, "--concurrency", str(concurrency)]
            self.supervisor.add(Child(name, command, env, logs / f"{name}.log", nice=BEHIND))
        if self.worker:
            self.supervisor.add(self._worker(logs, env))

    def _fetch_documents(self, engine: Engine) -> None:
        """What is on GitHub and was never fetched is fetched now, where somebody sees what is wrong with it."""
        reader = make_reader(self.settings)
        for document in (allowlists.DOCUMENT, providers.DOCUMENT):
            fetch_now(document, engine, self.settings, reader, time.time())
        reader.close()

    def _worker(self, logs: Path, env: dict[str, str]) -> Child:
        """The emulator worker. It gets what a worker in another lab would get, and nothing more."""
        settings = self.settings
        mine = {k: v for k, v in os.environ.items() if not k.startswith("RELAY_")}
        mine |= {
            "RELAY_BROKER_URL": env["RELAY_BROKER_URL"],
            "RELAY_WORKER_KEY": env["RELAY_WORKER_KEY"],
            "RELAY_URL": self._local(),
            "RELAY_WORKER_DEVICE": settings.device,
            "RELAY_WORKER_NAME": f"emulator-{socket.gethostname()}",
            "RELAY_WORKER_DIR": str(settings.data_dir.absolute() / "worker"),
        }
        return Child("emulator", [sys.executable, "-m", "relay.worker"], mine, logs / "emulator.log", nice=BEHIND)

    def _local(self) -> str:
        """The web process as this machine reaches it; an address that means all of them is none to connect to."""
        host = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(self.settings.host, self.settings.host)
        return f"http://[{host}]:{self.settings.port}" if ":" in host else f"http://{host}:{self.settings.port}"

    def wait_ready(self) -> None:
        """Returns when the web process answers that it is ready; SettingsError with its last lines otherwise."""
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline and not self.stop.is_set():
            self.supervisor.step()
            try:
                with urllib.request.urlopen(f"{self._local()}/readyz", timeout=2):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        if self.stop.is_set():
            return
        web = next(c for c in self.supervisor.children if c.name == "web")
        raise SettingsError(f"the web process does not become ready:\n{web.tail()}", f"its log is {web.log_path}")

    def announce(self) -> None:
        pids = {c.name: c.process.pid for c in self.supervisor.children if c.process is not None}
        line = {"event": "ready", "url": self.settings.url, "pids": pids, "data_dir": str(self.settings.data_dir)}
        (self.settings.data_dir / "up.json").write_text(json.dumps(line) + "\n", encoding="utf-8")
        print(json.dumps(line), file=self.out, flush=True)

    def run(self) -> None:
        while not self.stop.wait(0.1):
            self.supervisor.step()

    def close(self) -> None:
        self.supervisor.stop()
        if self.broker is not None:
            self.broker.remove()


def up(settings: Settings, config: str | None, worker: bool = True) -> None:
    """Runs until SIGTERM or SIGINT; ``worker``: with an emulator worker. Leaves no process and, outside ``data_dir``,
    no file. SettingsError, ConfigError, AllowlistError."""
    check(settings, worker)
    if not webhook_secrets(settings):
        log.warning("no webhook secret is set: no webhook is taken", mend="set RELAY_WEBHOOK_SECRETS or secrets_dir")
    relay = Up(settings.model_copy(update={"port": check_port(settings)}), config, worker)
    on_signals((signal.SIGTERM, signal.SIGINT), relay.stop.set)
    with alone(settings.data_dir):
        try:
            relay.start()
            relay.wait_ready()
            if not relay.stop.is_set():
                relay.announce()
            relay.run()
        finally:
            relay.close()
