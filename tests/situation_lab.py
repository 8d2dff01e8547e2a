"""A small upstream, the relay's web process, and workers that run its tests on the emulated device: from a change to
the verdict, without broker and GitHub. For the table of situations (tests/bench/situations.py) and its sample."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from factories import make_run
from runner_cli import methods_of
from sqlalchemy import Row, select

from relay.services import concluding, selecting
from relay.services.device_configs import load_device
from relay.settings import Settings
from relay.store import workers
from relay.store.db import migrate, open_engine, reading
from relay.store.schema import decision, dispatch, job, shard
from relay.worker import agent
from relay.worker.config import WorkerConfig
from relay.worker.runners import Runners
from selector.plan import codes

SHEET = Path(__file__).resolve().parents[1] / "test_configs" / "spyre" / "capability.yaml"
HEAD = """
import os
import torch
from torch.testing._internal.common_utils import TestCase
from torch.testing._internal.common_device_type import instantiate_device_type_tests, dtypes
"""
TORCH = "2.13.0"
MODES = [value for name, value in vars(codes).items() if name.isupper()]
CLOSED = ("completed", "failed", "superseded")


def module(cls: str, body: str, top: str = "", touched: int = 0) -> str:
    """A test file of one device-generic class; ``body`` is indented by four. Every test calls a helper that says
    ``touched``: another number reaches them all without an edit of their own."""
    lines = []
    for line in body.strip("\n").splitlines():
        lines.append(f"    {line}" if line else "")
        if line.startswith("def test"):
            lines.append("        self.touched = touch()")
    helper = f"def touch():\n    return {touched}\n\n"
    return "\n".join([HEAD, helper, top, "", f"class {cls}(TestCase):", *lines, "", "", _made(cls)]) + "\n"


def _made(cls: str) -> str:
    return f"instantiate_device_type_tests({cls}, globals())"


@dataclass
class Worker:
    """``files``: how many files its processes may hold open (None: as many as here); ``broken``: it cannot even unpack
    a tree."""

    name: str
    lab: str = ""
    files: int | None = None
    broken: bool = False
    config: WorkerConfig = field(init=False)


class Host(Runners):
    """One machine for all workers: torch is imported once, by the first shard."""

    def start(self) -> None:
        self.sweep()
        self._ahead = True  # what would be started ahead for overlays is not: no situation lays one over torch

    @contextlib.contextmanager
    def with_files(self, most: int) -> Iterator[Runners]:
        """A place on the machine in which processes may hold so many files open, and nothing is kept for later."""
        warm = self._of(True)
        pid = warm._process.pid
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        narrow = Host(self.room.parent)
        narrow._warm, narrow._ahead = self._warm, True
        try:
            # the hard limit stays, or nobody could lift it again; what is forked from the process inherits both
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, before[1]))
            yield narrow
            if narrow._kept is not None:
                narrow._kept.close()
        finally:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


class Lab:
    """``play`` takes a change through the relay. One at a time."""

    def __init__(self, tmp: Path, **settings: Any) -> None:
        self.tmp = tmp
        self.repo = tmp / "upstream"
        self.repo.mkdir(parents=True)
        self.configs = tmp / "configs"
        self.configs.mkdir()
        shutil.copyfile(SHEET, self.configs / "capability.yaml")
        self._git("init", "-q", "-b", "main")
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            port = sock.getsockname()[1]
        given = {
            "data_dir": tmp / "relay",
            "upstream_url": str(self.repo),
            "configs_dir": self.configs,
            "worker_key": "key",
            "port": port,
            "heartbeat_s": 1.0,
            "variant_timeout_s": 3.0,
            "explore_share": 0.0,
            **settings,
        }
        self.settings = Settings(**given)
        self.settings.data_dir.mkdir()
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("RELAY_")}
        self.env |= {f"RELAY_{name.upper()}": str(value) for name, value in given.items()}
        self.engine = open_engine(self.settings.database)
        migrate(self.engine)
        self.number = 0
        self._web: subprocess.Popen[bytes] | None = None
        self._host = Host(tmp / "host")
        self._workers: dict[str, Worker] = {}

    # ---------------------------------------------------------------------------------------------------- surroundings

    def __enter__(self) -> Lab:
        self._host.start()
        log = self.tmp / "web.log"
        with open(log, "wb") as out:
            self._web = subprocess.Popen([sys.executable, "-m", "relay.web"], env=self.env, stdout=out, stderr=out)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.settings.port), timeout=1):
                return self
            time.sleep(0.05)
        raise AssertionError(log.read_text())

    def __exit__(self, *_: object) -> None:
        self._host.close()
        assert self._web is not None
        self._web.terminate()
        self._web.wait()
        self.engine.dispose()

    def _git(self, *args: str, **env: str) -> str:
        who = {f"GIT_{role}_{what}": "lab" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        clean = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
        command = ["git", "-C", str(self.repo), *args]
        done = subprocess.run(command, env={**clean, **who, **env}, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def config(self, text: str) -> None:
        (self.configs / "situations.yaml").write_text(text, encoding="utf-8")

    def commit(self, files: Mapping[str, str | None], parent: str | None = None, message: str = "change") -> str:
        """A commit with these files written (None: removed); without ``parent`` on main."""
        if parent:
            self._git("switch", "-q", "-f", "--detach", parent)
        for path, text in files.items():
            place = self.repo / path
            if text is None:
                place.unlink()
            else:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(text, encoding="utf-8")
        self._git("add", "-A")
        self._git("commit", "-q", "--allow-empty", "-m", message)
        sha = self._git("rev-parse", "HEAD")
        if parent:
            self.number += 1
            self._git("update-ref", f"refs/pull/{self.number}/head", sha)
            self._git("switch", "-q", "-f", "main")
        return sha

    def enrol(self, worker: Worker) -> Worker:
        folder = self.tmp / worker.name
        if worker.broken and not folder.exists():
            folder.mkdir()
            (folder / "trees").write_text("not a folder")
        url = f"http://127.0.0.1:{self.settings.port}"
        worker.config = WorkerConfig(url=url, key="key", name=worker.name, folder=folder, lab=worker.lab)
        with self.engine.begin() as conn:
            values = {"name": worker.name, "device": "spyre", "queue": "shards.spyre", "torch": TORCH}
            info = {"lab": worker.lab} if worker.lab else {}
            workers.hello(conn, {**values, "runtimes": ["tests-only", "overlay"], "info": info}, time.time())
        self._workers[worker.name] = worker
        return worker

    def dismiss(self) -> None:
        """Workers that are there no more."""
        with self.engine.begin() as conn:
            conn.execute(workers.worker.update().values(seen_at=0.0))

    # --------------------------------------------------------------------------------------------------------- a change

    def play(self, head: str, base: str, crew: Sequence[Worker], **over: Any) -> Row[Any]:
        """A pull request of ``head`` against ``base``, played to its end by these workers, who take shards in turn."""
        self.dismiss()
        for worker in crew:
            self.enrol(worker)
        settings = over.pop("settings", self.settings)
        fields = {"base_ref": "main", "pr_number": max(self.number, 1), "author_trusted": False, **over}
        run = make_run(
            self.engine, state="selecting", due_at=time.time(), base_sha=base, head_sha=head, compare_sha=None, **fields
        )
        selecting.select_dispatch(self.engine, settings, run)
        return self.finish(run, crew, settings)

    def finish(self, run: str, crew: Sequence[Worker], settings: Settings | None = None) -> Row[Any]:
        turn = 0
        for _ in range(60):
            row = self.row(run)
            if row.state in CLOSED:
                return row
            if row.state == "verifying":
                concluding.conclude(self.engine, settings or self.settings, run, time.time())
                continue
            for shard_id in self._queued(run):
                for _ in crew:  # who is not to have it is refused, and the next one asks
                    self._work(shard_id, crew[turn % len(crew)])
                    turn += 1
                    if shard_id not in self._queued(run):
                        break
        raise AssertionError(f"run {run} does not end: {self.row(run)}")

    def _work(self, shard_id: str, worker: Worker) -> None:
        if worker.broken:
            agent.run_shard(shard_id, worker.config)
        elif worker.files is None:
            agent.run_shard(shard_id, worker.config, runners=self._host)
        else:
            with self._host.with_files(worker.files) as narrow:
                agent.run_shard(shard_id, worker.config, runners=narrow)

    def _queued(self, run: str) -> list[str]:
        with reading(self.engine) as conn:
            query = select(shard.c.id).where(shard.c.dispatch_id == run, shard.c.state == "queued")
            return list(conn.execute(query.order_by(shard.c.id)).scalars())

    def spec(self) -> dict[str, Any]:
        """The wire form of a shard under this lab's sheet and configs, without its tests."""
        device = load_device(self.configs)
        runtime = {"kind": "tests-only", "torch": TORCH, "files": []}
        texts = [{"name": c.name, "text": c.text} for c in device.texts]
        return {"device": "spyre", "runtime": runtime, "capability": device.capability_text, "configs": texts,
                "ops": {}, "variants": None}  # fmt: skip

    def tests_at(self, sha: str, files: Iterable[str]) -> list[str]:
        """The tests of these files at a commit."""
        found = []
        for path in files:
            found += methods_of(self._git("show", f"{sha}:{path}"), path)
        return found

    def row(self, run: str) -> Row[Any]:
        with reading(self.engine) as conn:
            return conn.execute(select(dispatch).where(dispatch.c.id == run)).one()

    def shards(self, run: str) -> list[Row[Any]]:
        with reading(self.engine) as conn:
            return list(conn.execute(select(shard).where(shard.c.dispatch_id == run).order_by(shard.c.id)))

    def check(self, run: str) -> str:
        """The conclusion that the check run shows."""
        with reading(self.engine) as conn:
            return str(conn.execute(select(job.c.conclusion).where(job.c.dispatch_id == run)).scalar_one())

    def modes(self, run: str) -> frozenset[str]:
        """Codes by which the plan says of tests how they come out."""
        with reading(self.engine) as conn:
            query = select(decision.c.code).where(decision.c.dispatch_id == run, decision.c.stage == "plan")
            return frozenset(conn.execute(query).scalars()) & frozenset(MODES)

    def decisions(self, run: str) -> list[Row[Any]]:
        with reading(self.engine) as conn:
            query = select(decision).where(decision.c.dispatch_id == run, decision.c.stage == "verify")
            return list(conn.execute(query.order_by(decision.c.id)))


@contextlib.contextmanager
def lab(tmp: Path, **settings: Any) -> Iterator[Lab]:
    with Lab(tmp, **settings) as made:
        yield made
