"""The demo's upstream: the repository is as GitHub would have it, and the PR edits what it says it edits."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from relay.demo import upstream
from relay.demo.upstream import PR_NUMBER, REFS, DemoError, break_addcdiv, build


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> upstream.DemoUpstream:
    return build(tmp_path_factory.mktemp("up") / "upstream", sys.executable)


def git(repo: Path, *args: str) -> str:
    return subprocess.run(["git", "-C", str(repo), *args], capture_output=True, text=True, check=True).stdout


def test_refs_are_githubs(made: upstream.DemoUpstream) -> None:
    assert git(made.path, "rev-parse", "main").strip() == made.base_sha
    assert git(made.path, "rev-parse", f"refs/pull/{PR_NUMBER}/head").strip() == made.head_sha
    assert git(made.path, "merge-base", "main", made.head_sha).strip() == made.base_sha
    assert git(made.path, "status", "--porcelain") == ""


def test_commit_ids_are_the_same_every_time(made: upstream.DemoUpstream, tmp_path: Path) -> None:
    again = build(tmp_path / "again", sys.executable)
    assert (again.base_sha, again.head_sha) == (made.base_sha, made.head_sha)


def test_the_pr_changes_a_helper_a_test_a_reference_and_a_document(made: upstream.DemoUpstream) -> None:
    assert set(made.changed) == {
        "docs/source/notes/numerics.md",
        "test/ladder_operands.py",
        "test/test_pointwise_demo.py",
        REFS,
    }
    assert made.pr["changed_files"] == 4


def test_every_expected_test_is_in_the_head(made: upstream.DemoUpstream) -> None:
    there = set()
    for name in git(made.path, "ls-tree", "-r", "--name-only", made.head_sha, "test/").split():
        for node in ast.parse(git(made.path, "show", f"{made.head_sha}:{name}")).body:
            if isinstance(node, ast.ClassDef):
                methods = [item.name for item in node.body if isinstance(item, ast.FunctionDef)]
                there |= {f"{name}::{node.name}::{method}" for method in methods}
    expect = made.expect
    groups = (expect.regressions, expect.pre_existing, expect.passing, expect.irrelevant, expect.untouched)
    assert set().union(*groups) <= there
    assert sum(len(group) for group in groups) == len(set().union(*groups)), "a test is in two groups"
    for key in expect.regressed_variants:
        assert any(key.startswith(test + "_") for test in expect.regressions), key


def test_the_reference_at_base_is_the_installed_one(made: upstream.DemoUpstream) -> None:
    shown = git(made.path, "show", f"{made.base_sha}:{REFS}")
    changed = git(made.path, "diff", "--numstat", made.base_sha, made.head_sha, "--", REFS)
    assert break_addcdiv(shown.encode()).decode() == git(made.path, "show", f"{made.head_sha}:{REFS}")
    assert changed.split()[:2] == ["1", "1"]


def test_the_edit_counts_bytes_not_characters() -> None:
    source = "def addcdiv(self, t, *, value):\n    return 'ü' if not self else self + value * t\n"
    edited = break_addcdiv(source.encode()).decode()
    assert edited.endswith("self + torch.full(tensor1.shape, value, dtype=tensor1.dtype) * t\n")
    assert "'ü'" in edited


@pytest.mark.parametrize(
    "source", ["", "def addcdiv(value):\n    return value + value\n", "def addcdiv(value):\n    pass\n"]
)
def test_a_torch_of_another_shape_is_refused(source: str) -> None:
    with pytest.raises(DemoError, match="addcdiv"):
        break_addcdiv(source.encode())


def test_a_python_without_torch_is_named(tmp_path: Path) -> None:
    with pytest.raises(DemoError, match="no/such/python"):
        build(tmp_path / "up", "/no/such/python")
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -I "$@"\n')
    bare.chmod(0o755)
    with pytest.raises(DemoError, match="torch is not installed"):
        build(tmp_path / "up", str(bare))
