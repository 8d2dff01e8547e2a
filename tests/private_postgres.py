"""A PostgreSQL server of the tests' own: a fresh cluster in a temporary folder, behind a unix socket alone, run by an
unprivileged user, ended with the tests whatever becomes of them."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import create_engine, make_url, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

from relay.store.db import migrate, open_engine

NOT_THERE = "NOT RUN: there is no PostgreSQL server here (on Debian: apt-get install postgresql)"
TEMPLATE = "migrated"
OPTIONS = {
    "listen_addresses": "",
    "max_connections": "150",
    # nothing of it is to outlive the tests
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "64MB",
    "log_min_messages": "fatal",
}


def binaries() -> Path | None:
    """The folder with initdb and postgres: on PATH, else where Debian keeps the newest. None: not installed."""
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: int(p.parts[-3]))
    return versions[-1].parent if versions else None


@dataclass
class Cluster:
    """A running server; ``pause`` and ``resume`` stop and start it, its data stay."""

    folder: Path
    bin: Path
    process: subprocess.Popen[bytes] | None = None
    _count: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def url(self, database: str = "postgres") -> str:
        return f"postgresql+psycopg://relay@/{database}?host={self.folder}"

    def new_database(self) -> str:
        """The URL of a fresh database that has the newest schema."""
        name = f"test_{next(self._count)}"
        admin = create_engine(self.url(), isolation_level="AUTOCOMMIT", poolclass=NullPool)
        with admin.connect() as conn:
            if conn.execute(text("SELECT 1 FROM pg_database WHERE datname = :n"), {"n": TEMPLATE}).first() is None:
                conn.execute(text(f"CREATE DATABASE {TEMPLATE}"))
                engine = open_engine(self.url(TEMPLATE))
                migrate(engine)
                engine.dispose()
            conn.execute(text(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}"))
        admin.dispose()
        return self.url(name)

    def drop_database(self, url: str) -> None:
        name = make_url(url).database
        admin = create_engine(self.url(), isolation_level="AUTOCOMMIT", poolclass=NullPool)
        with admin.connect() as conn:
            conn.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
        admin.dispose()

    def resume(self) -> None:
        """Starts the server and returns when it answers."""
        options = [word for name, value in OPTIONS.items() for word in ("-c", f"{name}={value}")]
        command = [self.bin / "postgres", "-D", self.folder / "data", "-k", self.folder, *options]
        log = (self.folder / "server.log").open("ab")
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=_end_with_us, **_unprivileged()
        )
        log.close()
        deadline = time.monotonic() + 30
        engine = create_engine(self.url())
        while True:
            try:
                engine.connect().close()
                break
            except OperationalError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise
                time.sleep(0.05)
        engine.dispose()

    def pause(self) -> None:
        """Ends the server at once, as a crash of its machine would."""
        assert self.process is not None
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait(20)
        self.process = None


@contextlib.contextmanager
def private_cluster() -> Iterator[Cluster]:
    """A cluster for the block. FileNotFoundError with NOT_THERE when PostgreSQL is not installed."""
    found = binaries()
    if found is None:
        raise FileNotFoundError(NOT_THERE)
    # the path of a unix socket must stay short
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    who = _unprivileged()
    if who:
        os.chown(folder, who["user"], who["group"])
    folder.chmod(0o755)
    cluster = Cluster(folder, found)
    try:
        command = [found / "initdb", "-D", folder / "data", "-U", "relay", "-A", "trust", "-E", "UTF8", "--locale=C"]
        made = subprocess.run([*command, "--no-sync"], capture_output=True, check=False, text=True, **who)
        if made.returncode:
            raise RuntimeError(f"initdb failed: {made.stdout[-500:]}{made.stderr[-1500:]}")
        cluster.resume()
        yield cluster
    finally:
        if cluster.process is not None:
            cluster.pause()
        shutil.rmtree(folder, ignore_errors=True)


def _unprivileged() -> dict[str, object]:
    """PostgreSQL refuses to run as root: then it runs as nobody."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _end_with_us() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGQUIT)  # PR_SET_PDEATHSIG
