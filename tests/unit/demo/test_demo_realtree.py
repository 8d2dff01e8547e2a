"""A real tree as the demo's upstream: borrowed or imported, edited on the spot, and left as it was."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from relay.demo import realtree
from relay.demo.upstream import PR_NUMBER, DemoError
from relay.mirror import partial
from relay.mirror.git import Mirror

TESTS = '''\
"""Views."""


def make(shape):
    return shape


class TestViews(TestCase):
    def is_view_of(self, base, other):
        """Whether."""
        return base is other

    def test_one(self, device):
        self.assertTrue(self.is_view_of(1, make(1)))

    def test_two(self, device):
        self.assertTrue(self.is_view_of(2, 2))
'''
FILES = {"test/test_view_ops.py": TESTS, "torch/__init__.py": "", "version.txt": "2.6.0\n", ".gitignore": "torch/\n"}

KEPT = ("test/test_view_ops.py", "torch/__init__.py", "version.txt")


def git(folder: Path, *args: str) -> str:
    who = {f"GIT_{r}_{k}": v for r in ("AUTHOR", "COMMITTER") for k, v in (("NAME", "A"), ("EMAIL", "a@example.org"))}
    env = {**os.environ, **who, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(
        ["git", "-C", str(folder), *args], check=True, env=env, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "tree"


@pytest.fixture
def repository(plain: Path) -> Path:
    git(plain, "init", "-q", "-b", "trunk")
    git(plain, "add", "-A", "-f")
    git(plain, "commit", "-q", "-m", "base")
    return plain


def state(folder: Path) -> dict[str, str]:
    return {
        str(p.relative_to(folder)): hashlib.sha1(p.read_bytes()).hexdigest() for p in folder.rglob("*") if p.is_file()
    }


def test_a_repository_is_borrowed_and_not_written_to(repository: Path, tmp_path: Path) -> None:
    before = state(repository)
    made = realtree.build(tmp_path / "upstream", repository)
    assert made.base_sha == git(repository, "rev-parse", "HEAD")
    assert made.expect is None
    assert made.changed == ("test/test_view_ops.py",)
    assert (made.pr["title"], made.pr["additions"], made.pr["deletions"]) == (
        "Edit is_view_of of test_view_ops.py",
        1,
        0,
    )
    assert git(made.path, "rev-parse", f"refs/pull/{PR_NUMBER}/head") == made.head_sha
    assert state(repository) == before
    # whoever clones it gets everything
    git(tmp_path, "clone", "-q", str(made.path), "clone")
    assert (tmp_path / "clone" / "torch/__init__.py").is_file()


def test_a_folder_of_sources_is_imported_with_what_it_ignores(plain: Path, tmp_path: Path) -> None:
    before = state(plain)
    made = realtree.build(tmp_path / "upstream", plain)
    assert set(git(made.path, "ls-tree", "-r", "--name-only", made.base_sha).split()) == set(FILES)
    assert state(plain) == before
    again = realtree.build(tmp_path / "upstream", plain)
    assert (again.base_sha, again.head_sha) == (made.base_sha, made.head_sha)


def test_a_linked_work_tree_and_a_shallow_clone(repository: Path, tmp_path: Path) -> None:
    git(repository, "commit", "-q", "--allow-empty", "-m", "second")
    git(repository, "worktree", "add", "-q", str(tmp_path / "linked"))
    assert realtree.build(tmp_path / "one", tmp_path / "linked").base_sha == git(repository, "rev-parse", "HEAD")
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{repository}", "shallow")
    made = realtree.build(tmp_path / "two", tmp_path / "shallow")
    assert git(made.path, "rev-list", made.head_sha).split() == [made.head_sha, made.base_sha]


def test_the_helper_that_is_used_most_gets_a_statement() -> None:
    name, content = realtree.edited_helper(TESTS.encode())
    assert name == "is_view_of"
    added = [line for line in content.decode().splitlines() if line not in TESTS.splitlines()]
    assert added == [f"        {realtree.MARK}"]
    compile(content, "test_view_ops.py", "exec")


def test_a_patch_is_the_pull_request(repository: Path, tmp_path: Path) -> None:
    (repository / "version.txt").write_text("2.7.0\n")
    patch = tmp_path / "bump.patch"
    patch.write_text(git(repository, "diff") + "\n")
    git(repository, "checkout", "-q", "version.txt")
    made = realtree.build(tmp_path / "upstream", repository, patch)
    assert made.pr["title"] == "Apply bump.patch"
    assert git(made.path, "show", f"{made.head_sha}:version.txt") == "2.7.0"


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"test/test_view_ops.py": None, "test/test_x.py": "x = 1\n"}, "the tree has no test/test_view_ops.py"),
        ({"test/test_view_ops.py": None}, "has no folder test/"),
        ({"test/test_view_ops.py": "def broken(:\n"}, "cannot be parsed"),
        ({"test/test_view_ops.py": "def test_x(): pass\n"}, "no helper that its tests use"),
    ],
)
def test_what_cannot_be_edited_is_said(plain: Path, tmp_path: Path, files: dict[str, str | None], said: str) -> None:
    for name, text in files.items():
        if text is None:
            (plain / name).unlink()
        else:
            (plain / name).write_text(text)
    with pytest.raises(DemoError, match=said):
        realtree.build(tmp_path / "upstream", plain)


def test_a_patch_that_does_not_apply_and_folders_that_are_none(repository: Path, tmp_path: Path) -> None:
    patch = tmp_path / "far.patch"
    patch.write_text("--- a/version.txt\n+++ b/version.txt\n@@ -1 +1 @@\n-9.9\n+9.8\n")
    with pytest.raises(DemoError, match="git apply"):
        realtree.build(tmp_path / "upstream", repository, patch)
    with pytest.raises(DemoError, match="is not a folder"):
        realtree.build(tmp_path / "upstream", tmp_path / "nowhere")
    with pytest.raises(DemoError, match="is not a file"):
        realtree.build(tmp_path / "upstream", repository, tmp_path / "nowhere.patch")


def test_a_url_is_cloned_without_what_nobody_reads_and_kept(repository: Path, tmp_path: Path) -> None:
    (repository / "docs").mkdir()
    (repository / "docs/large.md").write_text("never read")
    git(repository, "add", "-A", "-f")
    git(repository, "commit", "-q", "-m", "docs")
    for key in ("uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"):
        git(repository, "config", key, "true")
    source = realtree.Source(f"file://{repository}")
    made = realtree.real_upstream(tmp_path / "upstream", source, tmp_path / "clones")
    assert made.partial
    assert made.base_sha == git(repository, "rev-parse", "HEAD")
    (clone,) = (tmp_path / "clones").glob("*.git")
    absent = partial.missing(clone, [made.base_sha], ["."])
    assert set(absent) == {
        line.split()[2] for line in git(repository, "ls-tree", "-r", "HEAD").splitlines() if not line.endswith(KEPT)
    }
    # the relay's own mirror gets all that it reads out of it
    mirror = Mirror(str(made.path), tmp_path / "mirror.git", partial=True)
    change = mirror.change(made.base_sha, made.head_sha)
    assert [file.path for file in change.files] == ["test/test_view_ops.py"]
    mirror.prepare(made.base_sha, made.head_sha)

    git(repository, "commit", "-q", "--allow-empty", "-m", "newer")
    again = realtree.real_upstream(tmp_path / "upstream", source, tmp_path / "clones")
    assert again.base_sha == git(repository, "rev-parse", "HEAD") != made.base_sha


def test_a_url_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(DemoError, match="cannot be read"):
        realtree.real_upstream(tmp_path / "u", realtree.Source(f"file://{tmp_path}/nowhere"), tmp_path / "clones")
