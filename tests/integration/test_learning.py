"""`relay learn --from history`: what runs of trusted authors broke, from selection to weights, on both databases.

Each pull request is selected, leased, reported and concluded by the relay's own services. A worker that is played here
says which tests fail: those that use what the pull request edits, and never those that use it at second hand.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from factories import make_run, result_line
from sqlalchemy import Engine, delete, select, update

from relay.cli import learn
from relay.services import concluding, learning, leasing, selecting
from relay.settings import Settings
from relay.store import workers
from relay.store.db import reading
from relay.store.schema import dispatch, plan, shard
from selector.plan.learned import read_ranker
from selector.plan.learning import LEAST, TooLittle, newest

MODULES = 12
"""Modules of torch, of which each pull request edits one; a test file uses it, and another one a module that does."""
SHEET = "capability: {name: toy, device: spyre, dtypes: [float32]}\n"
CONFIG = """test_suite_config:
  extends: capability.yaml
  files:
    - {path: "${TORCH_ROOT}/test/test_*.py", unlisted_test_mode: mandatory_success}
"""
USES = """from torch.m{n} import made
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_utils import TestCase
class TestUses{n}(TestCase):
    def test_near(self, device): made(device)
    def test_nearer(self, device): self.assertEqual(made(device), made(device))
instantiate_device_type_tests(TestUses{n}, globals())
"""
KEEPS = "from torch.m{n} import made\ndef kept(device):\n    return made(device)\n"
AT_SECOND_HAND = """from torch.k{n} import kept
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_utils import TestCase
class TestKeeps{n}(TestCase):
    def test_far(self, device): kept(device)
    def test_farther(self, device): self.assertTrue(kept(device))
    def test_farthest(self, device): self.assertFalse(not kept(device))
instantiate_device_type_tests(TestKeeps{n}, globals())
"""


@dataclass(frozen=True)
class Upstream:
    path: Path
    base: str
    heads: tuple[str, ...]


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Upstream:
    repo = tmp_path_factory.mktemp("upstream")
    who = {f"GIT_{r}_{w}": "t" for r in ("AUTHOR", "COMMITTER") for w in ("NAME", "EMAIL")}

    def git(*args: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(repo), *args], env={**os.environ, **who}, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    git("init", "-q", "-b", "main")
    for folder in ("test", "torch"):
        (repo / folder).mkdir()
    (repo / "torch" / "__init__.py").write_text("")
    for n in range(MODULES):
        (repo / "torch" / f"m{n}.py").write_text(f"def made(device):\n    return {n}\n")
        (repo / "test" / f"test_uses_{n}.py").write_text(USES.format(n=n))
        (repo / "torch" / f"k{n}.py").write_text(KEEPS.format(n=n))
        (repo / "test" / f"test_keeps_{n}.py").write_text(AT_SECOND_HAND.format(n=n))
    git("add", ".")
    git("commit", "-q", "-m", "base")
    base = git("rev-parse", "HEAD")
    heads = []
    for n in range(MODULES):
        git("checkout", "-q", base)
        (repo / "torch" / f"m{n}.py").write_text(f"def made(device):\n    return {n} + 1\n")
        git("commit", "-q", "-a", "-m", f"change {n}")
        heads.append(git("rev-parse", "HEAD"))
        git("branch", f"pr{n}")
    git("checkout", "-q", "main")
    return Upstream(repo, base, tuple(heads))


@pytest.fixture
def settings(engine: Engine, tmp_path: Path, upstream: Upstream) -> Settings:
    configs = tmp_path / "configs"
    configs.mkdir()
    (configs / "capability.yaml").write_text(SHEET)
    (configs / "all.yaml").write_text(CONFIG)
    url = engine.url.render_as_string(hide_password=False)
    return Settings(
        data_dir=tmp_path, upstream_url=str(upstream.path), configs_dir=configs, explore_share=0.0, database_url=url
    )


def run_change(
    engine: Engine, settings: Settings, upstream: Upstream, number: int, *, breaks: str = "::test_near", **over: object
) -> str:
    """A pull request from its selection to its verdict: tests whose ids hold ``breaks`` fail at the head, alone."""
    now = time.time()
    with engine.begin() as conn:
        hello = {"name": "w", "device": "spyre", "queue": "q", "torch": "2.13.0", "info": {}}
        workers.hello(conn, {**hello, "runtimes": ["tests-only", "overlay"]}, now)
    facts = {
        "state": "selecting", "due_at": now, "pr_number": number, "base_sha": upstream.base, "compare_sha": None,
        "head_sha": upstream.heads[number % MODULES], "base_ref": "main", "author_trusted": True,
    }  # fmt: skip
    run = make_run(engine, **{**facts, **over})
    selecting.select_dispatch(engine, settings, run)
    for _ in range(20):
        with reading(engine) as conn:
            state = conn.execute(select(dispatch.c.state).where(dispatch.c.id == run)).scalar_one()
            queued = select(shard.c.id, shard.c.spec, shard.c.side).where(shard.c.state == "queued")
            rows = conn.execute(queued.where(shard.c.dispatch_id == run)).all()
        if state not in ("running", "confirming", "verifying"):
            break
        for row in rows:
            play(engine, settings, row, breaks)
        concluding.conclude(engine, settings, run, time.time())
    assert state == "completed"
    return run


def play(engine: Engine, settings: Settings, row, breaks: str) -> None:
    token = leasing.take(engine, settings, row.id, "w", time.time())["token"]
    lines = []
    for test in row.spec["tests"]:
        bad = breaks and breaks in test and row.side in ("head", "again")
        told = {"outcome": "failed", "message": "AssertionError: 1 is not 2"} if bad else {}
        variant = f"{test.rpartition('::')[2]}_spyre"
        for attempt in range(row.spec.get("repeat", 1)):
            lines.append(result_line(variant, test=test, dtype=None, attempt=attempt, **told))
    leasing.record(engine, settings, row.id, token, lines, time.time())
    leasing.complete(engine, settings, row.id, token, status="done", error=None, report={}, now=time.time())


@pytest.mark.both_databases
def test_what_trusted_changes_broke_becomes_weights(engine, settings, upstream, tmp_path):
    pytest.importorskip("torch", reason="NOT RUN: weights are fitted with torch")
    for number in range(LEAST - 1):
        run_change(engine, settings, upstream, number)
    run_change(engine, settings, upstream, 100, breaks="")
    run_change(engine, settings, upstream, 9, author_trusted=False)
    run_change(engine, settings, upstream, 110, base_ref="gh/mallory/3/base")
    pinned = {"repo": "a/b", "number": 1, "sha": "c" * 40}
    pin = run_change(engine, settings, upstream, 111)
    with engine.begin() as conn:
        conn.execute(update(dispatch).where(dispatch.c.id == pin).values(pin=pinned))
    run_change(engine, settings, upstream, 1)  # another push to a pull request that counts already
    config = tmp_path / "relay.toml"
    config.write_text(
        f'data_dir = "{tmp_path}"\nupstream_url = "{upstream.path}"\nconfigs_dir = "{settings.configs_dir}"\n'
        f'database_url = "{settings.database}"\n'
    )
    out = tmp_path / "ranker.json"
    with pytest.raises(TooLittle) as thin:
        learn.from_history(str(config), None, out)
    said = str(thin.value)
    assert f"{LEAST - 1} changes of trusted authors broke a test" in said, said
    parts = ("1 of authors who are not trusted", "2 not against trunk, or under", "1 broke nothing", "1 a change that")
    for part in parts:
        assert part in said, said
    assert f"{LEAST} are needed" in said
    assert not out.exists()

    for number in (9, 10, 11):
        run_change(engine, settings, upstream, number)  # 9 by somebody who is trusted
    assert learn.from_history(str(config), None, out) == 0
    ranker = read_ranker(out.read_text(), str(out))
    taught = learning.history(engine, "spyre")
    assert len(taught.ended) == MODULES
    assert {one.failed for one in taught.examples} == {True, False}
    assert all(one.failed == ("test_near" in one.ranked.test.method) for one in taught.examples)
    assert {one.change for one in taught.examples} == {f"pytorch/pytorch#{n}" for n in range(MODULES)}
    by_name = {one.ranked.test.method: one.ranked for one in taught.examples}
    assert ranker.chance(by_name["test_near"]) > 0.5 > ranker.chance(by_name["test_far"])
    assert ranker.metrics["changes"] == 3
    assert ranker.metrics["auc"] == 1.0
    assert ranker.metrics["log_loss"] < ranker.metrics["log_loss_of_the_mean"]
    assert (ranker.origin["history"], ranker.origin["changes"]) == ("spyre", MODULES - 3)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", ranker.origin["from"])
    held = newest(taught.ended)
    assert held == {f"pytorch/pytorch#{n}" for n in (9, 10, 11)}, "the changes that ended last, whole"


@pytest.mark.both_databases
def test_what_nobody_knows_or_no_ranker_orders_is_no_example(engine, settings, upstream):
    run = run_change(engine, settings, upstream, 1)
    with engine.begin() as conn:
        verdict = conn.execute(select(dispatch.c.verdict).where(dispatch.c.id == run)).scalar_one()
        first, second = [cause for cause in verdict["causes"] if cause["kind"] == "regression"]
        second["kind"] = "unconfirmed"
        conn.execute(update(dispatch).where(dispatch.c.id == run).values(verdict=verdict))
    examples = taught(engine).examples
    assert {str(one.ranked.test): one.failed for one in examples}[first["test"]] is True
    assert second["test"] not in {str(one.ranked.test) for one in examples}
    with engine.begin() as conn:
        row = conn.execute(select(plan).where(plan.c.dispatch_id == run)).one()
        seen = row.shadow["seen"]
        place = seen["columns"].index("must_run")
        seen["rows"] = {test: [*v[:place], 1, *v[place + 1 :]] for test, v in seen["rows"].items()}
        conn.execute(update(plan).where(plan.c.dispatch_id == run).values(shadow=row.shadow))
    assert taught(engine).left_out == {"beside": 1}
    with engine.begin() as conn:
        conn.execute(delete(plan).where(plan.c.dispatch_id == run))
    assert taught(engine).left_out == {"forgotten": 1}


def taught(engine: Engine) -> learning.Taught:
    """What the history holds, however thin it is."""
    return learning.history(engine, "spyre", least=0)


def test_the_command_names_what_is_missing_and_what_does_not_fit(tmp_path):
    env = {**os.environ, "RELAY_DATA_DIR": str(tmp_path)}

    def relay(*args: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "relay.cli", "learn", "--out", str(tmp_path / "r.json"), *args]
        return subprocess.run(command, capture_output=True, text=True, env=env)

    done = relay()
    assert done.returncode == 2, done.stderr
    assert "--from replay needs --upstream and --work" in done.stderr
    done = relay("--from", "history", "--work", str(tmp_path))
    assert "takes no --upstream and no --work" in done.stderr
    done = relay("--from", "history")
    assert done.returncode == 2, done.stderr
    assert "there is no database at" in done.stderr
    subprocess.run([sys.executable, "-m", "relay.cli", "migrate"], env=env, check=True, capture_output=True)
    done = relay("--from", "history")
    assert done.returncode == 2, done.stderr
    assert "spyre: 0 changes of trusted authors broke a test" in done.stderr
    assert not (tmp_path / "r.json").exists()
