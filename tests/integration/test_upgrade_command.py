"""``relay upgrade`` over two commits and two folders, by its command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

TEST = """
import torch
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_utils import TestCase


class TestView(TestCase):
    def test_kept(self, device):
        x = torch.ones(2, device=device)
        y = x.view(1, 2)
        self.assertEqual(y.sum().item(), 2)

    def test_edited(self, device):
        x = torch.ones(2, device=device)
        y = x.view(2, 1)
        self.assertEqual(y.sum().item(), 2)

    def test_old_name(self, device):
        x = torch.ones(3, device=device)
        y = x.view(3, 1)
        self.assertEqual(y.sum().item(), 3)


instantiate_device_type_tests(TestView, globals())
"""
NEW = TEST.replace("x.view(2, 1)", "x.view(2, 1).clone()").replace("test_old_name", "test_new_name")


def relay(*args: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "relay.cli", "upgrade", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)


def folder(at: Path, text: str) -> Path:
    (at / "test").mkdir(parents=True)
    (at / "test" / "test_view_ops.py").write_text(text)
    return at


def test_two_folders(tmp_path: Path) -> None:
    old, new, out = folder(tmp_path / "old", TEST), folder(tmp_path / "new", NEW), tmp_path / "out"
    done = relay("--from", old, "--to", new, "--json", "--write", out)
    assert done.returncode == 0, done.stderr
    value = json.loads(done.stdout)
    assert {k: n for k, n in value["kinds"].items() if n} == {"unchanged": 1, "body": 1, "renamed": 1}
    assert (value["evaluate"], value["relevant"], value["carried"]) == (1, 1, 2)
    (edited,) = [c for c in value["changes"] if c["evaluate"]]
    assert edited["test"].endswith("::TestView::test_edited")
    assert edited["relevant"]
    assert json.loads((out / "upgrade.json").read_text())["kinds"] == value["kinds"]
    report = (out / "upgrade.md").read_text()
    assert "**1 to evaluate, 1 of them for this device**; 2 keep what was decided" in report
    assert "`test/test_view_ops.py::TestView::test_new_name`" in report


def test_two_commits_and_revisions_that_are_none(tmp_path: Path) -> None:
    def git(*args: str) -> None:
        who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        subprocess.run(["git", "-C", tmp_path / "repo", *who, *args], check=True, capture_output=True)

    folder(tmp_path / "repo", TEST)
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "a")
    git("tag", "v1")
    (tmp_path / "repo" / "test" / "test_view_ops.py").write_text(NEW)
    git("commit", "-qam", "b")
    done = relay("--from", "v1", "--to", "HEAD", "--upstream", tmp_path / "repo", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["evaluate"] == 1
    for args, words in (
        (("--from", "v1", "--to", "v2", "--upstream", tmp_path / "repo"), "v2"),
        (("--from", "v1", "--to", "HEAD"), "--upstream"),
        (("--from", tmp_path, "--to", tmp_path), "no Python file under test/"),
    ):
        refused = relay(*args)
        assert refused.returncode == 2, refused.stdout
        assert words in refused.stderr
        assert "Traceback" not in refused.stderr


def test_a_release_against_itself_has_nothing_to_evaluate(pytorch_tree: Path) -> None:
    done = relay("--from", pytorch_tree, "--to", pytorch_tree, "--json")
    assert done.returncode == 0, done.stderr
    value = json.loads(done.stdout)
    assert value["evaluate"] == 0
    assert value["kinds"]["unchanged"] == value["total"]["to"] > 24_000
