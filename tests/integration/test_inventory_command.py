"""`relay inventory` on a folder and on a commit."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from relay.cli import inventory as cli_inventory
from relay.cli.terminal import Terminal

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
    out = Terminal(file=io.StringIO())
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
    out = Terminal(file=io.StringIO(), width=60)
    cli_inventory.run(tree, None, None, as_json=False, console=out)
    said = out.file.getvalue()  # type: ignore[attr-defined]
    assert "2 in 1 classes" in said
    assert "test/test_broken.py: line 1: invalid syntax" in said


def command(*args: str) -> str:
    done = subprocess.run([sys.executable, "-m", "relay.cli", *args], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def git(folder: Path, *args: str) -> None:
    who = {f"GIT_{r}_{k}": v for r in ("AUTHOR", "COMMITTER") for k, v in (("NAME", "A"), ("EMAIL", "a@example.org"))}
    env = {**os.environ, **who, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "-C", str(folder), *args], check=True, env=env, capture_output=True)


def test_two_trees_compared(tree: Path, tmp_path: Path) -> None:
    path = tree / "test" / "test_a.py"
    edited = tmp_path / "edited"
    shutil.copytree(tree, edited)
    text = path.read_text()
    assert "def test_two(self, device): pass" in text
    (edited / "test" / "test_a.py").write_text(
        text.replace("def test_two(self, device): pass", "def test_two(self, device): return 1").replace(
            "def test_one(", "# a remark\n    def test_first("
        )
        + "\nclass TestMore(TestCase):\n    def test_more(self): return [1]\n"
    )
    said = json.loads(command("inventory", "diff", str(tree), str(edited), "--json"))
    assert said["counts"]["renamed"] == 1
    assert [one["new"].rpartition("::")[2] for one in said["renamed"]] == ["test_first"]
    assert [one.rpartition("::")[2] for one in said["new"]] == ["test_more"]
    assert [(one["test"].rpartition("::")[2], one["parts"]) for one in said["changed"]] == [
        ("test_two", {"body": [""]})
    ]
    assert command("inventory", "diff", str(tree), str(tree)).startswith("tests         0 new, 0 gone, 0 renamed")


def test_two_revisions_compared(tree: Path, tmp_path: Path) -> None:
    git(tree, "init", "--quiet", "--initial-branch=main")
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--message", "one")
    path = tree / "test" / "test_a.py"
    path.write_text(
        path.read_text().replace("def test_two(self, device): pass", "def test_two(self, device):\n        pass")
    )
    git(tree, "commit", "--quiet", "--all", "--message", "two")
    args = ("inventory", "diff", "main~1", "main", "--upstream", str(tree), "--json", "--cache", str(tmp_path / "c"))
    said = json.loads(command(*args))
    assert [test.rpartition("::")[2] for test in said["cosmetic"]] == ["test_two"]
    assert (said["counts"]["changed"], said["counts"]["new"]) == (0, 0)


def test_what_differs_for_one_reason_is_a_row_together(tmp_path: Path) -> None:
    ops = "torch/testing/_internal/common_methods_invocations.py"
    tests = "".join(f"    def test_{n}(self): return helper()\n" for n in range(5))
    files = {
        ops: 'op_db = [OpInfo("logit", dtypes=wide()), OpInfo("sum", dtypes=wide())]\n',
        "test/test_h.py": f"def helper(): return 1\nclass TestH(TestCase):\n{tests}",
        "test/test_o.py": "from torch.testing._internal.common_methods_invocations import op_db\n"
        "class TestO(TestCase):\n    @ops(op_db)\n    def test_all(self, device, dtype, op): pass\n"
        "instantiate_device_type_tests(TestO, globals())\n",
    }
    edits = {ops: ("wide()), OpInfo", "narrow()), OpInfo"), "test/test_h.py": ("return 1", "return 2")}
    for side in ("old", "new"):
        for name, text in files.items():
            path = tmp_path / side / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.replace(*edits[name]) if side == "new" and name in edits else text)
    both = str(tmp_path / "old"), str(tmp_path / "new")
    rows = [" ".join(line.split()) for line in command("inventory", "diff", *both).splitlines()]
    assert rows[0].startswith("tests 0 new, 0 gone, 0 renamed, 5 changed, 1 for ops alone, 0 cosmetic, 0 same")
    named = "TestH::test_0, TestH::test_1, TestH::test_2, ..."
    assert f"changed test/test_h.py helpers: helper: 5 tests, {named}" in rows
    assert "for ops test/test_o.py::TestO::test_all draws logit" in rows
    assert any(row.startswith("op entry logit") for row in rows)
    said = json.loads(command("inventory", "diff", *both, "--json"))
    assert said["drawing"] == [{"test": "test/test_o.py::TestO::test_all", "ops": ["logit"]}]
    counts = said["counts"]
    assert sum(counts[kind] for kind in ("new", "renamed", "changed", "drawing", "cosmetic", "same")) == 6
