"""An upstream with nights, and the workers that run what the relay asks for; for tests of nights and upgrades."""

from __future__ import annotations

import os
import subprocess
import time
from datetime import UTC, datetime

from factories import result_line
from sqlalchemy import insert, select

from relay import chores
from relay.services import concluding, leasing, upgrades
from relay.settings import Settings
from relay.store import upgrades as store
from relay.store.db import reading
from relay.store.schema import shard, upgrade, worker

DAY = 86_400
START = datetime(2026, 11, 1, 22, tzinfo=UTC).timestamp()
SHEET = "capability: {name: toy, device: spyre, dtypes: [float32]}\n"
CONFIG = """test_suite_config:
  extends: capability.yaml
  files:
    - path: ${TORCH_ROOT}/test/test_x.py
      unlisted_test_mode: mandatory_success
"""
ALLOWLIST = """L2:
  - torch-spyre/torch-spyre: {device: spyre, executor: workers}
"""
FILE = """
import torch
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_utils import TestCase


class TestX(TestCase):
{tests}

instantiate_device_type_tests(TestX, globals())
"""
ONE = """\
    def test_{name}(self, device):
        x = torch.ones({n}, device=device)
        y = x + {n}
        z = y * 2
        self.assertEqual(z, x)
"""


def file(**tests: int) -> str:
    return FILE.format(tests="".join(ONE.format(name=name, n=n) for name, n in tests.items()))


class Trunk:
    """An upstream in which a commit is made on a day."""

    def __init__(self, folder):
        self.folder, self.shas = folder, []
        (folder / "test").mkdir(parents=True)
        self.git("init", "-q", "-b", "main")

    def git(self, *args, at=START):
        who = {f"GIT_{r}_{w}": "t" for r in ("AUTHOR", "COMMITTER") for w in ("NAME", "EMAIL")}
        dates = {f"GIT_{r}_DATE": f"{int(at)} +0000" for r in ("AUTHOR", "COMMITTER")}
        command = ["git", "-C", str(self.folder), *args]
        done = subprocess.run(command, env={**os.environ, **who, **dates}, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(
        self, day: float, message: str = "c", version: str = "2.13.0a0", *, source: str = "", **tests: int
    ) -> str:
        """A commit with these tests, or with the file ``source``. -> its id"""
        (self.folder / "test" / "test_x.py").write_text(source or file(**tests))
        (self.folder / "version.txt").write_text(version + "\n")
        self.git("add", ".")
        self.git("commit", "-q", "--allow-empty", "-m", message, at=START + day * DAY)
        self.shas.append(self.git("rev-parse", "HEAD"))
        return self.shas[-1]


def enrol(engine, torch="2.13.0", name="w"):
    with engine.begin() as conn:
        row = {"name": name, "device": "spyre", "queue": f"spyre.q.{torch}", "torch": torch, "runtimes": ["tests-only"]}
        conn.execute(insert(worker).values(**row, info={}, seen_at=time.time() + 3600))


def look(engine, settings, day):
    """The chore, on a day of November."""
    return chores.step(engine, chores.slow_chores_of(engine, settings), START + day * DAY)


def rows(engine):
    with reading(engine) as conn:
        return conn.execute(select(upgrade).order_by(upgrade.c.night)).all()


def play(engine, settings, ran, broken=lambda test, commit: False):
    """The workers: runs what is queued."""
    with reading(engine) as conn:
        queued = conn.execute(select(shard).where(shard.c.state == "queued")).all()
    for one in queued:
        token = leasing.take(engine, settings, one.id, "w", time.time())["token"]
        lines = []
        for test in one.spec["tests"]:
            failed = broken(test.rpartition("::")[2], one.spec["commit"])
            more = {"outcome": "failed", "message": "Error: no"} if failed else {}
            lines.append(result_line(test.rpartition("::")[2] + "_spyre", test=test, **more))
            ran.setdefault(one.queue, []).append(test.rpartition("::")[2])
        leasing.record(engine, settings, one.id, token, lines, time.time())
        leasing.complete(engine, settings, one.id, token, status="done", error=None, report={}, now=time.time())
        concluding.conclude(engine, settings, one.dispatch_id, time.time())


def work(engine, settings, broken=lambda test, commit: False):
    """The queue and the workers, until nothing is left to do. -> {queue: tests that were run on it}"""
    ran: dict[str, list[str]] = {}
    for _ in range(40):
        open_ = [row for row in rows(engine) if row.state in store.OPEN]
        if not open_:
            return ran
        for row in open_:
            upgrades.go_on(engine, settings, row.id, time.time())
        play(engine, settings, ran, broken)
    raise AssertionError("it does not end")


def make_settings(tmp_path, **over):
    configs = tmp_path / "configs"
    configs.mkdir()
    (configs / "capability.yaml").write_text(SHEET)
    (configs / "x.yaml").write_text(CONFIG)
    (tmp_path / "allowlist.yaml").write_text(ALLOWLIST)
    values = {
        "data_dir": tmp_path / "data",
        "upstream_url": str(tmp_path / "upstream"),
        "configs_dir": configs,
        "nightly_ref": "main",
        "allowlist": str(tmp_path / "allowlist.yaml"),
        "hud_url": "http://127.0.0.1:9/rows",
    }
    return Settings(**{**values, **over})
