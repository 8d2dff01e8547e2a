"""Odd trees and odd changes, on real repositories: through the selection, and through the worker.

One file that is broken costs that file, with a reason; an odd change gets a sensible answer.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from factories import make_run
from sqlalchemy import Engine, Row, select

from relay.cli.select import selected
from relay.services import concluding, leasing, selecting
from relay.services.device_configs import load_device
from relay.services.sharding import head_specs
from relay.settings import Settings
from relay.store import plans, workers
from relay.store.db import reading
from relay.store.schema import dispatch, job, shard
from selector.errors import TreeError
from selector.model import OpDatabase, Selection
from selector.opdb import to_json

CONFIGS = Path(__file__).parents[2] / "test_configs" / "spyre"
GOOD = """\
import torch
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_utils import TestCase


def helper():
    return 1


class TestGood(TestCase):
    def test_adds(self, device):
        self.assertEqual((torch.ones(3, device=device) + helper()).cpu(), torch.full((3,), 2.0))


instantiate_device_type_tests(TestGood, globals())
"""
LOOPS = GOOD.replace("TestGood", "TestLoops") + "while True:\n    pass\n"
LARGE = GOOD.replace("TestGood", "TestLarge") + "".join(f"LINE_{n} = '{'x' * 990}'\n" for n in range(5_200))
BROKEN: dict[str, bytes] = {
    "test/test_unparsable.py": b"class TestX(TestCase:\n    def test_a(self): pass\n",
    "test/test_latin.py": GOOD.replace("TestGood", "TestLatin").encode() + b"NAME = 'caf\xe9'\n",
    "test/test_large.py": LARGE.encode(),
    "test/test_loops.py": LOOPS.encode(),
}


class Repository:
    """A repository with a base commit; ``commit`` makes the change."""

    def __init__(self, path: Path, files: dict[str, bytes]) -> None:
        self.path = path
        path.mkdir()
        self.git("init", "-q", "-b", "main")
        self.base = self.commit(files)

    def git(self, *args: str) -> str:
        who = {f"GIT_{r}_{k}": v for r in ("AUTHOR", "COMMITTER") for k, v in (("NAME", "A"), ("EMAIL", "a@b.example"))}
        env = {**os.environ, **who, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        done = subprocess.run(["git", *args], cwd=self.path, env=env, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(self, files: dict[str, bytes | None]) -> str:
        for name, content in files.items():
            path = self.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if content is None:
                path.unlink()
            else:
                path.write_bytes(content)
        self.git("add", "-A", "-f")
        self.git("commit", "-q", "--allow-empty", "-m", "commit")
        return self.git("rev-parse", "HEAD")

    def checkout(self, commit: str, folder: Path) -> Path:
        """The commit's files, as a worker gets them."""
        folder.mkdir()
        packed = subprocess.run(["git", "archive", commit], cwd=self.path, capture_output=True, check=True)
        subprocess.run(["tar", "-x", "-C", str(folder)], input=packed.stdout, check=True)
        return folder

    def select(self) -> Selection:
        opdb = self.path.parent / "opdb.json"
        opdb.write_text(to_json(OpDatabase("2.13.0", (), ())))
        return selected(self.path, self.base, self.git("rev-parse", "HEAD"), CONFIGS, opdb)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "up", {"test/test_good.py": GOOD.encode(), "setup.py": b"", "docs/a.md": b"a"})


def run(repository: Repository, selection: Selection, tmp_path: Path) -> tuple[dict[str, str], dict[str, Any]]:
    """The selection's tests by the runner: ({variant: outcome}, report)."""
    (spec,) = head_specs(selection.plan, selection.change.head, load_device(CONFIGS), "spyre")
    spec["limits"] = {"collect_s": 8.0}
    lines, report = worked(spec, repository.path, tmp_path)
    return {line["variant"]: line["outcome"] for line in lines}, report


def worked(spec: dict[str, Any], tree: Path, tmp_path: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """A shard by the runner: (results, report)."""
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    out = tmp_path / "out.jsonl"
    where = ["--spec", str(tmp_path / "spec.json"), "--tree", str(tree), "--out", str(out)]
    done = subprocess.run(
        [sys.executable, "-m", "relay.worker.runner", *where],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    return lines[:-1], lines[-1]["report"]


class Relay:
    """Takes a change of the repository through the relay's services; the worker is the real runner."""

    def __init__(self, engine: Engine, repository: Repository, tmp_path: Path) -> None:
        self.engine, self.repository, self.tmp_path = engine, repository, tmp_path
        where = {"data_dir": tmp_path / "data", "upstream_url": str(repository.path)}
        self.settings = Settings(**where, configs_dir=CONFIGS, requeue_s=1.0)
        hello = {"name": "w", "device": "spyre", "queue": "shards.spyre", "torch": "2.13.0", "info": {}}
        with engine.begin() as conn:
            workers.hello(conn, {**hello, "runtimes": ["tests-only", "overlay"]}, time.time())

    def select(self) -> Row[Any]:
        head = self.repository.git("rev-parse", "HEAD")
        shas = {"base_sha": self.repository.base, "head_sha": head, "compare_sha": None}
        self.run = make_run(self.engine, state="selecting", due_at=time.time(), **shas)
        selecting.select_dispatch(self.engine, self.settings, self.run)
        return self.now()

    def now(self) -> Row[Any]:
        with reading(self.engine) as conn:
            return conn.execute(select(dispatch).where(dispatch.c.id == self.run)).one()

    def work(self) -> list[str]:
        """Runs the shards that are queued, each on a checkout of its commit. Returns their commits."""
        with reading(self.engine) as conn:
            rows = conn.execute(select(shard.c.id, shard.c.spec).where(shard.c.state == "queued")).all()
        for row in rows:
            token = leasing.take(self.engine, self.settings, row.id, "w", time.time())["token"]
            tree = self.repository.checkout(row.spec["commit"], self.tmp_path / f"tree-{row.id}")
            lines, report = worked(row.spec, tree, self.tmp_path)
            leasing.record(self.engine, self.settings, row.id, token, lines, time.time())
            ended = {"status": "done", "error": None, "report": report, "now": time.time()}
            leasing.complete(self.engine, self.settings, row.id, token, **ended)
        return [row.spec["commit"] for row in rows]

    def conclude(self) -> Row[Any]:
        concluding.conclude(self.engine, self.settings, self.run, time.time())
        return self.now()


@pytest.mark.torch
@pytest.mark.parametrize(
    "broken",
    [
        {"test/test_good.py": b"def (\n" + GOOD.encode()},
        {"test/test_good.py": b"\x7fELF\0\1\2\3"},
        {"test/test_shared.py": b"def (\n"},
    ],
    ids=["syntax", "binary", "imported"],
)
def test_a_change_that_breaks_a_test_file_fails(
    engine: Engine, tmp_path: Path, broken: dict[str, bytes | None]
) -> None:
    good = GOOD.replace("def helper():", "import test_shared\n\n\ndef helper():")
    files = {"test/test_good.py": good.encode(), "test/test_shared.py": b"VALUE = 1\n"}
    repository = Repository(tmp_path / "up", {**files, "test/test_fine.py": GOOD.replace("Good", "Fine").encode()})
    # another test is edited and passes: it is not to make a success of it
    fine = GOOD.replace("Good", "Fine").replace("return 1", "return 1 + 0").encode()
    repository.commit({**broken, "test/test_fine.py": fine})
    relay = Relay(engine, repository, tmp_path)
    assert relay.select().state == "running"
    assert set(relay.work()) == {repository.git("rev-parse", "HEAD")}
    assert relay.conclude().state == "confirming"
    assert relay.work() == [repository.base]
    run = relay.conclude()
    assert (run.state, run.conclusion, run.code) == ("completed", "failure", "verify-import-regression")
    assert "test_good.py cannot be imported" in run.summary
    assert [item["path"] for item in run.verdict["not_exercised"]] == list(broken)
    assert run.verdict["counts"]["passed"] == 1


@pytest.mark.torch
def test_a_new_file_that_cannot_be_read_keeps_a_run_from_success(
    engine: Engine, repository: Repository, tmp_path: Path
) -> None:
    repository.commit({"test/test_new.py": b"def (\n", "test/test_good.py": GOOD.replace("n 1", "n 1 + 0").encode()})
    relay = Relay(engine, repository, tmp_path)
    relay.select()
    relay.work()
    run = relay.conclude()
    assert (run.conclusion, run.code) == ("neutral", "verify-not-exercised")
    assert "test/test_new.py (it cannot be read as Python (line 1:" in run.summary


def test_a_change_that_removes_the_tests_ends_at_once_with_the_reason(
    engine: Engine, repository: Repository, tmp_path: Path
) -> None:
    repository.commit({"test/test_good.py": None})
    relay = Relay(engine, repository, tmp_path)
    assert relay.select().state == "verifying"
    run = relay.conclude()
    assert (run.state, run.conclusion, run.code) == ("completed", "neutral", "verify-nothing-to-run")
    assert "this change leaves no test/ folder" in run.summary


def test_an_upstream_without_tests_ends_at_once(engine: Engine, tmp_path: Path) -> None:
    repository = Repository(tmp_path / "up", {"setup.py": b"a"})
    repository.commit({"setup.py": b"b"})
    run = Relay(engine, repository, tmp_path).select()
    assert (run.state, run.conclusion, run.code) == ("failed", "neutral", "select-failed")
    assert "no Python file under test/" in run.summary
    with reading(engine) as conn:
        assert conn.execute(select(job.c.conclusion)).scalar_one() == "neutral"


def test_links_are_said_and_nothing_follows_them(engine: Engine, repository: Repository, tmp_path: Path) -> None:
    for name in ("test/test_link.py", "test/data.txt", "torch/link.py", "setup.cfg", "aten/src/ATen/native/Link.cpp"):
        (repository.path / name).parent.mkdir(parents=True, exist_ok=True)
        (repository.path / name).symlink_to("/etc/passwd")
    (repository.path / "test/test_good.py").unlink()
    (repository.path / "test/test_good.py").symlink_to("/etc/passwd")
    repository.commit({"test/test_more.py": GOOD.replace("Good", "More").encode()})
    relay = Relay(engine, repository, tmp_path)
    run = relay.select()
    assert (run.state, run.error) == ("running", None)
    with reading(engine) as conn:
        left = {item.path for item in (plans.load(conn, run.id) or concluding.EMPTY_PLAN).not_exercised}
    assert left >= {"test/test_link.py", "test/data.txt", "torch/link.py", "test/test_good.py"}


@pytest.mark.torch
def test_each_broken_file_costs_itself_through_selection_and_worker(repository: Repository, tmp_path: Path) -> None:
    repository.commit({**BROKEN, "test/test_good.py": GOOD.replace("return 1", "return 1 + 0").encode()})
    selection = repository.select()
    planned = {str(item.test) for item in selection.plan.tests}
    assert planned == {
        "test/test_good.py::TestGood::test_adds",
        "test/test_large.py::TestLarge::test_adds",
        "test/test_loops.py::TestLoops::test_adds",
    }
    said = "\n".join(selection.warnings)
    assert "test/test_unparsable.py cannot be read (line 1" in said
    assert "test/test_latin.py cannot be read (" in said
    left = [item.path for item in selection.plan.not_exercised]
    assert left == ["test/test_latin.py", "test/test_unparsable.py"]

    outcomes, report = run(repository, selection, tmp_path)
    assert outcomes == {"test_adds_spyre": "passed"}  # of both files that can be imported
    errors = {error["file"]: error["message"] for error in report["errors"]}
    assert list(errors) == ["test/test_loops.py"]
    assert "8" in errors["test/test_loops.py"]


def test_a_tree_without_tests_is_refused_with_a_hint(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "up", {"setup.py": b"a"})
    repository.commit({"setup.py": b"b"})
    with pytest.raises(TreeError) as told:
        repository.select()
    assert "test/" in str(told.value)
    assert "checkout" in (told.value.hint or "")


def about(selection: Selection, subject: str) -> list[tuple[str, str]]:
    return [(d.verdict, d.code) for d in selection.decisions if d.subject == subject and d.stage.value == "discover"]


def test_an_empty_change_reaches_nothing(repository: Repository) -> None:
    repository.commit({})
    selection = repository.select()
    assert selection.plan.tests == ()
    assert about(selection, "change") == [("no-impact", "no-change")]
    assert selection.plan.not_exercised == ()


def test_three_thousand_files_widen_within_bounds(repository: Repository) -> None:
    repository.commit(
        {f"torch/part{n % 50}/m{n}.py": b"x = %d\n" % n for n in range(2_000)}
        | {f"csrc/k{n}.cpp": b"int x;" for n in range(1_000)}
    )
    selection = repository.select()
    assert selection.counts["files"] == 3_000
    assert [str(item.test) for item in selection.plan.tests] == ["test/test_good.py::TestGood::test_adds"]
    assert ("widened", "unmapped-change") in about(selection, "change")
    assert sum(selection.timings.values()) < 60


def test_a_submodule_bump_widens_and_is_not_exercised(repository: Repository) -> None:
    for sha in ("1" * 40, "2" * 40):
        repository.git("update-index", "--add", "--cacheinfo", f"160000,{sha},third_party/fmt")
        repository.git("commit", "-q", "-m", "bump")
        if sha.startswith("1"):
            repository.base = repository.git("rev-parse", "HEAD")
    selection = repository.select()
    assert about(selection, "third_party/fmt") == [("widened", "submodule-bump")]
    assert [item.path for item in selection.plan.not_exercised] == ["third_party/fmt"]
    assert len(selection.plan.tests) == 1


def test_a_binary_change_widens_or_reaches_who_reads_it(repository: Repository) -> None:
    repository.commit({"torch/lib/blob.bin": b"\0\1", "test/weights.pt": b"\0\2"})
    selection = repository.select()
    assert about(selection, "torch/lib/blob.bin") == [("widened", "binary-change")]
    assert [item.path for item in selection.plan.not_exercised] == ["torch/lib/blob.bin"]
