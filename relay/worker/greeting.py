"""Hello: tells the relay that this worker is there and what it has, and brings the op database when it is wanted."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog

from relay.errors import RelayError, SettingsError, Unavailable
from relay.worker import room
from relay.worker.client import Client
from relay.worker.config import WorkerConfig

log = structlog.get_logger(__name__)
EVERY_S = 30.0
RETRY_S = 0.5
EXPORT_S = 120.0


def torch_version() -> str:
    """The installed torch's version without its build tag; SettingsError when there is none. Does not import it."""
    try:
        return importlib.metadata.version("torch").split("+")[0]
    except importlib.metadata.PackageNotFoundError as exc:
        raise SettingsError("torch is not installed", "install the extra `emulator`: pip install .[emulator]") from exc


def op_database(folder: Path) -> str:
    """The op database's JSON, exported by a process of its own and kept in ``folder`` by version and build."""
    build = importlib.metadata.version("torch")
    cached = folder / f"opdb-{build}.json"
    if not cached.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        fresh = folder / f"opdb-{build}.{os.getpid()}.tmp"
        env = {"PATH": os.environ.get("PATH", os.defpath), "OMP_NUM_THREADS": "1", "HOME": str(folder)}
        env["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "inductor")  # else torch makes a folder in /tmp
        if "PYTHONPATH" in os.environ:
            env["PYTHONPATH"] = os.environ["PYTHONPATH"]
        command = [sys.executable, "-m", "relay.worker.opdb", "--out", str(fresh)]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=EXPORT_S)
        if done.returncode != 0:
            raise SettingsError(f"the op database cannot be exported: {done.stderr.strip()[-500:]}")
        fresh.rename(cached)
    return cached.read_text(encoding="utf-8")


def hello(config: WorkerConfig, held: str = "", held_s: float = 0.0) -> dict[str, Any]:
    """Says hello once, and sends the op database when the relay has none like ours. Returns the relay's answer.
    ``held``: why no shard is taken now, and for how many seconds it has been so."""
    torch = torch_version()
    text = op_database(config.folder) if not held else ""
    body = {
        "name": config.name,
        "device": config.device,
        "queue": config.queue,
        "torch": torch,
        "runtimes": ["tests-only", "overlay"],
        "info": {
            "python": platform.python_version(),
            "host": platform.node(),
            "cpus": os.cpu_count() or 1,
            **({"lab": config.lab} if config.lab else {}),
            **({"image": config.image} if config.image else {}),
            **({"held": {"why": held, "seconds": round(held_s, 1)}} if held else {}),
        },
        "opdb_digest": hashlib.sha256(text.encode()).hexdigest() if text else None,
    }
    with Client(config.url, config.key) as client:
        answer = client.hello(body)
        if answer.get("opdb_wanted") and text:
            client.put_opdb(torch, text)
            log.info("op database sent", torch=torch)
    return answer


def keep_greeting(config: WorkerConfig, stop: threading.Event, why: Callable[[], str] = str) -> None:
    """Says hello every 30 s until ``stop``, and when no shard is taken any more (the disk has no room, or ``why`` says
    something) or again; while the relay does not answer, twice a second. For a thread."""

    def holds() -> str:
        return room.lacking(config.folder) or why()

    greeted = False
    since = time.monotonic()
    while not stop.is_set():
        pause = EVERY_S
        held = holds()
        if not held:
            since = time.monotonic()
        try:
            hello(config, held, time.monotonic() - since)
            if not greeted:
                log.info("enrolled", relay=config.url, worker=config.name)
            greeted = True
        except Unavailable as exc:
            if greeted:
                log.warning("relay unreachable", why=exc.message)
            greeted, pause = False, RETRY_S
        except (RelayError, OSError, subprocess.SubprocessError) as exc:
            log.error("hello refused", why=str(exc))
            greeted, pause = False, 5.0
        until = time.monotonic() + pause
        while not stop.wait(min(room.LOOK_S, pause)) and time.monotonic() < until:
            if bool(holds()) != bool(held):
                break
