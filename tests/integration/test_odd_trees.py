"""Odd trees and odd changes, on real repositories: through the selection, and through the worker.

One file that is broken costs that file, with a reason; an odd change gets a sensible answer.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from relay.cli_select import selected
from relay.services.device_configs import load_device
from relay.services.sharding import head_specs
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
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    out = tmp_path / "out.jsonl"
    where = ["--spec", str(tmp_path / "spec.json"), "--tree", str(repository.path), "--out", str(out)]
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
    return {line["variant"]: line["outcome"] for line in lines[:-1]}, lines[-1]["report"]


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
