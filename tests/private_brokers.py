"""Broker servers of the tests' own, from the distribution's packages: on ports of their own, in temporary folders, run
by an unprivileged user, ended with the tests whatever becomes of them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError

NO_REDIS = "NOT RUN: there is no redis-server here (on Debian: apt-get install redis-server)"
NO_SENTINEL = "NOT RUN: there is no redis-sentinel here (on Debian: apt-get install redis-sentinel)"
NO_RABBIT = "NOT RUN: there is no RabbitMQ here (on Debian: apt-get install rabbitmq-server)"
RABBIT = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")


def found(name: str) -> str | None:
    """The path of a server program, also where an ordinary user's PATH does not lead."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/bin:/usr/sbin:/sbin")


def free_ports(number: int) -> list[int]:
    """Ports that are free now, all different."""
    with contextlib.ExitStack() as stack:
        taken = [stack.enter_context(socket.socket()) for _ in range(number)]
        for one in taken:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in taken]


@dataclass
class Server:
    """A broker at ``url``. ``kill`` is kill -9; ``start`` starts it again on its old data."""

    url: str
    folder: Path
    command: Sequence[str | Path]
    ready: Callable[[], bool]
    env: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    def start(self, seconds: float = 60.0) -> None:
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [str(part) for part in self.command], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, "HOME": str(self.folder), **self.env}, cwd=self.folder, start_new_session=True,
                preexec_fn=_end_with_us, **unprivileged(),
            )  # fmt: skip
        deadline = time.monotonic() + seconds
        while not self.ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{self.command[0]} does not start: {self.said()}")
            time.sleep(0.05)

    def kill(self) -> None:
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

    def said(self) -> str:
        return (self.folder / "server.log").read_text(errors="replace")[-2000:]


@contextlib.contextmanager
def redis(*more: str) -> Iterator[Server]:
    """A Redis with an append-only file, on a port of its own. FileNotFoundError when there is none."""
    with _folder("redis-") as folder:
        server = redis_server(folder, free_ports(1)[0], *more)
        try:
            server.start()
            yield server
        finally:
            server.kill()


def redis_server(folder: Path, port: int, *more: str) -> Server:
    """A Redis that is not started yet."""
    binary = found("redis-server")
    if binary is None:
        raise FileNotFoundError(NO_REDIS)
    command = [
        binary, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", "", "--appendonly", "yes",
        "--appendfsync", "everysec", "--repl-diskless-sync-delay", "0", "--daemonize", "no", *more,
    ]  # fmt: skip
    return Server(f"redis://127.0.0.1:{port}/0", folder, command, lambda: pings(port))


def pings(port: int) -> bool:
    """Whether a Redis answers there."""
    client = Redis(port=port, socket_timeout=1)
    try:
        return bool(client.ping())
    except (RedisError, OSError):
        return False
    finally:
        client.close()


@contextlib.contextmanager
def sentinel() -> Iterator[tuple[str, Server, Server]]:
    """A master, its replica and one Sentinel that alone decides; -> (the broker's URL, master, replica)."""
    binary = found("redis-sentinel")
    if binary is None:
        raise FileNotFoundError(NO_SENTINEL)
    with contextlib.ExitStack() as stack:
        ports = free_ports(3)
        folders = [stack.enter_context(_folder("redis-")) for _ in ports]
        master = redis_server(folders[0], ports[0])
        replica = redis_server(folders[1], ports[1], "--replicaof", "127.0.0.1", str(ports[0]))
        for server in (master, replica):
            stack.callback(server.kill)
            server.start()
        config = folders[2] / "sentinel.conf"
        config.write_text(
            f"port {ports[2]}\nbind 127.0.0.1\ndir {folders[2]}\n"
            f"sentinel monitor relay 127.0.0.1 {ports[0]} 1\n"
            "sentinel down-after-milliseconds relay 1000\nsentinel failover-timeout relay 3000\n"
        )
        _give(config)
        watch = Server("", folders[2], [binary, str(config)], lambda: pings(ports[2]))
        stack.callback(watch.kill)
        watch.start()
        client = Redis(port=ports[2], socket_timeout=2)
        stack.callback(client.close)
        deadline = time.monotonic() + 30
        while not client.sentinel_slaves("relay"):  # it can fail over once it has heard of the replica
            if time.monotonic() > deadline:
                raise RuntimeError(f"Sentinel finds no replica: {watch.said()}")
            time.sleep(0.1)
        yield f"sentinel://127.0.0.1:{ports[2]}/0?master=relay", master, replica


@contextlib.contextmanager
def rabbitmq() -> Iterator[Server]:
    """A RabbitMQ node of its own, with a port mapper of its own. FileNotFoundError when there is none."""
    epmd = found("epmd")
    if not RABBIT.exists() or epmd is None:
        raise FileNotFoundError(NO_RABBIT)
    with _folder("rabbit-") as folder:
        port, dist, mapper_port = free_ports(3)
        config = folder / "rabbitmq.conf"
        config.write_text(f"listeners.tcp.1 = 127.0.0.1:{port}\nlog.console = true\nlog.file = false\n")
        (folder / "plugins").write_text("[].\n")
        for path in (config, folder / "plugins"):
            _give(path)
        env = {
            "RABBITMQ_NODENAME": f"relay{port}@localhost",
            "RABBITMQ_CONFIG_FILE": str(config),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
            "RABBITMQ_DIST_PORT": str(dist),
            "RABBITMQ_NODE_PORT": str(port),
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            # one scheduler: a test's broker must not take the machine
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none",
            "ERL_EPMD_PORT": str(mapper_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "LANG": "C.UTF-8",
        }
        (folder / "mapper").mkdir()
        _give(folder / "mapper")
        mapper = Server("", folder / "mapper", [epmd, "-port", str(mapper_port)], lambda: _listens(mapper_port), env)
        node = Server(
            f"amqp://guest:guest@127.0.0.1:{port}//", folder, [RABBIT], lambda: "completed with" in node.said(), env
        )
        try:
            mapper.start()
            node.start(120)
            yield node
        finally:
            node.kill()
            mapper.kill()


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


@contextlib.contextmanager
def _folder(prefix: str) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir="/tmp"))
    _give(folder)
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _give(path: Path) -> None:
    who = unprivileged()
    if who:
        os.chown(path, who["user"], who["group"])


def unprivileged() -> dict[str, object]:
    """These servers need no root, so as root they run as nobody."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _end_with_us() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
