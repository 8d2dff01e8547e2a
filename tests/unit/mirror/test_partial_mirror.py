"""Mirrors without file contents, and tidying: against real repositories."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from relay.mirror import partial, tidy
from relay.mirror.git import Mirror

ENV = {
    "PATH": os.environ["PATH"],
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_{what}": "t" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}
FILES = {
    "test/test_a.py": "a",
    "test/deep/data.bin": "\0",
    "torch/testing/x.py": "x",
    "docs/large.md": "never read",
    "aten/src/ATen/native/K.cpp": "k",
    "third_party/big.c": "never read either",
}


class Upstream:
    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        self.git("init", "-q", "-b", "main")
        for key in ("uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"):
            self.git("config", key, "true")

    def git(self, *args: str) -> str:
        done = subprocess.run(["git", *args], cwd=self.path, env=ENV, capture_output=True, check=True, text=True)
        return done.stdout.strip()

    def commit(self, files: dict[str, str], message: str = "c") -> str:
        for name, content in files.items():
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            (self.path / name).write_text(content)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    return Upstream(tmp_path / "upstream")


@pytest.fixture
def mirror(upstream: Upstream, tmp_path: Path) -> Mirror:
    return Mirror(f"file://{upstream.path}", tmp_path / "mirror.git", fetch_timeout_s=30, partial=True, depth=3)


def held(mirror: Mirror, upstream: Upstream, commit: str) -> set[str]:
    """The files of a commit whose contents the mirror holds."""
    absent = set(partial.missing(mirror.path, [commit], ["."]))
    rows = [line.split(None, 3) for line in upstream.git("ls-tree", "-r", commit).splitlines()]
    return {path for _, _, blob, path in rows if blob not in absent}


def test_only_what_is_read_is_fetched_and_all_at_once(upstream: Upstream, mirror: Mirror) -> None:
    base = upstream.commit(FILES)
    head = upstream.commit({"test/test_a.py": "b", "docs/large.md": "changed"})
    mirror.ensure(base, head)
    mirror.ensure(base, head)
    assert held(mirror, upstream, base) == set()
    mirror.prepare(base)
    assert held(mirror, upstream, base) == {n for n in FILES if not n.startswith(("docs", "third_party"))}
    packs = len(list((mirror.path / "objects/pack").glob("*.pack")))
    mirror.prepare(base)
    assert len(list((mirror.path / "objects/pack").glob("*.pack"))) == packs
    with mirror.tree(base) as tree:
        assert tree.read("test/test_a.py") == b"a"
    # away with upstream: what was prepared is there
    upstream.path.rename(upstream.path.with_name("away"))
    with mirror.tree(base) as tree:
        assert tree.read("aten/src/ATen/native/K.cpp") == b"k"


def test_a_change_brings_both_sides_of_what_it_changes(upstream: Upstream, mirror: Mirror) -> None:
    base = upstream.commit(FILES)
    head = upstream.commit({"docs/large.md": "changed", "test/new [x]*.py": "n"})
    change = mirror.change(base, head)
    found = {file.path: (file.old, file.new) for file in change.files}
    assert found == {"docs/large.md": (b"never read", b"changed"), "test/new [x]*.py": (None, b"n")}
    assert held(mirror, upstream, head) == {"docs/large.md", "test/new [x]*.py"}


def test_history_comes_when_the_merge_base_needs_it(upstream: Upstream, mirror: Mirror) -> None:
    fork = upstream.commit(FILES)
    upstream.git("branch", "pr")
    for n in range(8):
        base = upstream.commit({"torch/n.py": str(n)})
    upstream.git("checkout", "-q", "pr")
    for n in range(8):
        head = upstream.commit({"test/test_a.py": str(n)})
    mirror.ensure(base, head)
    assert (mirror.path / "shallow").exists()
    assert mirror.merge_base(base, head) is None
    change = mirror.change(base, head)
    assert change.base == fork
    assert [file.path for file in change.files] == ["test/test_a.py"]


def test_a_shallow_upstream_is_compared_as_it_is(upstream: Upstream, tmp_path: Path) -> None:
    upstream.commit(FILES)
    upstream.git("branch", "pr")
    base = upstream.commit({"torch/n.py": "1"})
    upstream.git("checkout", "-q", "pr")
    head = upstream.commit({"test/test_a.py": "2"})
    subprocess.run(
        ["git", "clone", "-q", "--bare", "--depth=1", "--no-single-branch", f"file://{upstream.path}", "shallow.git"],
        cwd=tmp_path,
        env=ENV,
        check=True,
    )
    change = Mirror(str(tmp_path / "shallow.git"), tmp_path / "m.git", fetch_timeout_s=30).change(base, head)
    assert change.base == base  # nothing better is known
    assert {file.path for file in change.files} == {"test/test_a.py", "torch/n.py"}


def test_archives_are_whole(upstream: Upstream, mirror: Mirror) -> None:
    base = upstream.commit(FILES)
    head = upstream.commit({"torch/testing/x.py": "y"})
    packed = b"".join(
        mirror.archive(head, ("test", "torch/testing/x.py"), base=base, base_paths=["torch/testing/x.py"])
    )
    assert packed
    assert held(mirror, upstream, head) == {"test/test_a.py", "test/deep/data.bin", "torch/testing/x.py"}


def test_new_commits_come_on_top_of_what_is_there(upstream: Upstream, mirror: Mirror) -> None:
    first = upstream.commit(FILES)
    mirror.ensure(first)
    mirror.prepare(first)
    second = upstream.commit({"test/test_a.py": "b"})
    mirror.ensure(second)
    assert held(mirror, upstream, second) == held(mirror, upstream, first) - {"test/test_a.py"}


def test_unused_commits_are_let_go(upstream: Upstream, mirror: Mirror, tmp_path: Path) -> None:
    full = Mirror(str(upstream.path), tmp_path / "full.git", fetch_timeout_s=30)
    old, new = upstream.commit({"a": "1"}), upstream.commit({"a": "2"})
    full.ensure(old, new)
    now = time.time()
    os.utime(full.path / tidy.USED / old, (now - 40 * 86_400, now - 40 * 86_400))
    full.tidy(now)
    refs = subprocess.run(
        ["git", f"--git-dir={full.path}", "for-each-ref"], env=ENV, capture_output=True, text=True, check=True
    ).stdout
    assert new in refs
    assert old not in refs.replace(new, "")
    full.tidy(now + 60)  # not due again
    full.ensure(old, new)
    assert full.merge_base(old, new) == old
    # a used commit stays, however old it is
    full.tidy(now + 29 * 86_400)
    assert "tidied" in os.listdir(full.path / tidy.USED)


def test_tidying_does_not_wait_for_a_fetch(upstream: Upstream, tmp_path: Path) -> None:
    full = Mirror(str(upstream.path), tmp_path / "full.git", fetch_timeout_s=30)
    full.ensure(upstream.commit({"a": "1"}))
    with full._locked():
        began = time.monotonic()
        full.tidy(time.time())
        assert time.monotonic() - began < 5
    assert not (full.path / tidy.USED / "tidied").exists()
