"""`relay inventory` on a folder and on a commit."""

from __future__ import annotations

import io
import json
import os
import subprocess
from pathlib import Path

import pytest
from rich.console import Console

from relay import cli_inventory

FILES = {
    "test/test_a.py": """
from torch.testing._internal.common_device_type import instantiate_device_type_tests
class TestA(TestCase):
    def test_one(self, device): pass
    def test_two(self, device): pass
class NoTests: pass
# instantiate_device_type_tests(TestA) in a comment is no call
instantiate_device_type_tests(TestA, globals())
def made_at_run_time():
    instantiate_device_type_tests(NoTests, globals())
""",
    "test/helpers.py": "def help(): return 1\n",
    "test/test_broken.py": "def (:\n",
    "torch/nn/linear.py": "x = 1\n",
}
COUNTS = {
    "files": 3,
    "parsed_files": 2,
    "test_files": 2,
    "test_classes": 1,
    "test_methods": 2,
    "instantiated_classes": 1,
    "instantiate_calls": 2,
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "tree"


def inventory(tree: Path, cache: Path, revision: str | None = None) -> dict[str, object]:
    out = Console(file=io.StringIO())
    assert cli_inventory.run(tree, revision, cache, as_json=True, console=out) == 0
    return json.loads(out.file.getvalue())  # type: ignore[attr-defined]


def test_counts_and_what_could_not_be_read(tree: Path, tmp_path: Path) -> None:
    value = inventory(tree, tmp_path / "cache")
    assert {key: value[key] for key in COUNTS} == COUNTS
    assert value["problems"] == [{"file": "test/test_broken.py", "reason": "line 1: invalid syntax"}]


def test_a_commit_and_its_checkout_share_what_was_parsed(tree: Path, tmp_path: Path) -> None:
    inventory(tree, tmp_path / "cache")
    kept = sorted(p.name for p in (tmp_path / "cache").rglob("*") if p.is_file())
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    for args in (("init", "-q", "-b", "main"), ("add", "-A"), (*who, "commit", "-qm", "base")):
        subprocess.run(["git", "-C", str(tree), *args], check=True, env=env)
    value = inventory(tree, tmp_path / "cache", "main")
    assert {key: value[key] for key in COUNTS} == COUNTS
    assert sorted(p.name for p in (tmp_path / "cache").rglob("*") if p.is_file()) == kept


def test_for_people(tree: Path) -> None:
    out = Console(file=io.StringIO(), width=60)
    cli_inventory.run(tree, None, None, as_json=False, console=out)
    said = out.file.getvalue()  # type: ignore[attr-defined]
    assert "2 in 1 classes" in said
    assert "test/test_broken.py: line 1: invalid syntax" in said
