"""What an emulator worker is told: a handful of environment variables, nothing of the relay's own settings."""

from __future__ import annotations

import os
import platform
import socket
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from relay.errors import SettingsError
from relay.queue.names import is_shard_queue, shard_queue


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """``url`` of the relay, ``key`` to enrol and take leases, ``folder`` for trees and the op database.

    ``broker_url`` is only needed to take work from the broker, not to run a shard by its id.
    """

    url: str
    key: str = field(repr=False)
    name: str
    device: str = "spyre"
    queue: str = ""
    broker_url: str = field(default="", repr=False)
    folder: Path = Path(".relay-worker")
    lab: str = ""
    """the lab it stands in: results of labs that disagree are told apart by it"""
    trust: str = "lenient"
    """``strict``: code of untrusted authors is refused where this machine's sandbox is incomplete."""
    plugin: str = ""
    """import name of the package that registers a real device with torch; empty: emulated, or openreg"""
    nodes: tuple[str, ...] = ()
    """names below /dev, with * for any, that the real device needs: they are in the sandbox, to read and to write"""
    image: str = ""
    """the container image it runs in, kept with each verdict"""
    module_packages: tuple[str, ...] = ()
    """packages beside torch.nn whose modules configs may name (docs/configs.md): their code is run"""
    shards: int = 0
    """ends after so many messages: a job of a cluster takes one; 0: never"""
    drain_s: float = 0.0
    """Seconds that the shard which is running when the worker is told to stop has to end; then it is handed back"""
    give_up_s: float = 120.0
    """Seconds without an answer of the relay after which a shard is dropped: its lease is long gone by then."""


def from_environment(env: Mapping[str, str] | None = None, torch: str = "none") -> WorkerConfig:
    """Reads ``RELAY_URL``, ``RELAY_WORKER_KEY``, ``RELAY_BROKER_URL`` and, where given, ``RELAY_WORKER_NAME``,
    ``RELAY_WORKER_DEVICE``, ``RELAY_WORKER_QUEUE``, ``RELAY_WORKER_DIR``, ``RELAY_WORKER_LAB``,
    ``RELAY_WORKER_TRUST``, ``RELAY_WORKER_PLUGIN``, ``RELAY_WORKER_NODES``, ``RELAY_WORKER_IMAGE``,
    ``RELAY_MODULE_PACKAGES``, ``RELAY_WORKER_DRAIN_S``, ``RELAY_WORKER_SHARDS``.
    ``torch`` is the installed version, by which the worker's own queue is named. Raises SettingsError naming what is
    missing.
    """
    env = os.environ if env is None else env
    values = {}
    for key, what in (
        ("RELAY_URL", "the relay's URL"),
        ("RELAY_WORKER_KEY", "the relay's worker_key"),
        ("RELAY_BROKER_URL", "the broker's URL"),
    ):
        values[key] = env.get(key, "").strip()
        if not values[key]:
            raise SettingsError(f"{key} is not set", f"a worker needs {what}; docs/runner.md lists all it is told")
    if not _is_address(values["RELAY_URL"]):
        raise SettingsError(
            f"RELAY_URL is {values['RELAY_URL']!r}", "the relay's address, such as https://relay.example"
        )
    device = env.get("RELAY_WORKER_DEVICE", "") or "spyre"
    queue = env.get("RELAY_WORKER_QUEUE", "") or shard_queue(device, platform.machine(), torch)
    if not is_shard_queue(queue):
        raise SettingsError(f"RELAY_WORKER_QUEUE is {queue!r}", "up to 64 letters, digits and _ . + -")
    trust = env.get("RELAY_WORKER_TRUST", "") or "lenient"
    if trust not in ("lenient", "strict"):
        raise SettingsError(f"RELAY_WORKER_TRUST is {trust!r}", "it is strict or lenient; docs/sandbox.md says which")
    packages = tuple(filter(None, (name.strip() for name in env.get("RELAY_MODULE_PACKAGES", "").split(","))))
    for name in packages:
        if not name.isidentifier():
            raise SettingsError(
                f"RELAY_MODULE_PACKAGES names {name!r}, which is no package", "import names, separated by commas"
            )
    nodes = tuple(filter(None, (name.strip() for name in env.get("RELAY_WORKER_NODES", "").split(","))))
    for name in nodes:
        if name.startswith("/") or ".." in Path(name).parts:
            raise SettingsError(
                f"RELAY_WORKER_NODES names {name!r}", "names below /dev such as vfio/*, separated by commas"
            )
    number = env.get("RELAY_WORKER_SHARDS", "").strip() or "0"
    if not (number.isascii() and number.isdecimal()):
        raise SettingsError(f"RELAY_WORKER_SHARDS is {number!r}", "a number of shards, 0 for no end")
    said = env.get("RELAY_WORKER_DRAIN_S", "").strip() or "0"
    try:
        drain_s = float(said)
    except ValueError:
        drain_s = -1.0
    if not 0 <= drain_s < 86400:
        raise SettingsError(f"RELAY_WORKER_DRAIN_S is {said!r}", "seconds, 0 to 86400")
    return WorkerConfig(
        shards=int(number),
        drain_s=drain_s,
        url=values["RELAY_URL"].rstrip("/"),
        key=values["RELAY_WORKER_KEY"],
        name=env.get("RELAY_WORKER_NAME", "") or f"{device}-{socket.gethostname()}-{os.getpid()}",
        device=device,
        queue=queue,
        broker_url=values["RELAY_BROKER_URL"],
        lab=env.get("RELAY_WORKER_LAB", "").strip(),
        trust=trust,
        plugin=env.get("RELAY_WORKER_PLUGIN", "").strip(),
        nodes=nodes,
        image=env.get("RELAY_WORKER_IMAGE", "").strip()[:500],
        module_packages=packages,
        folder=Path(env.get("RELAY_WORKER_DIR", "") or Path(tempfile.gettempdir()) / f"relay-worker-{os.getuid()}"),
    )


def _is_address(url: str) -> bool:
    try:
        where = urlsplit(url)
        return where.scheme in ("http", "https") and bool(where.hostname) and where.port != 0
    except ValueError:  # a port that is no number, an address that is not closed
        return False
