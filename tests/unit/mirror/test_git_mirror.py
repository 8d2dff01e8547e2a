"""The mirror against real repositories made on the spot."""

from __future__ import annotations

import io
import os
import socket
import subprocess
import tarfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from relay.errors import NotFound, SettingsError, UpstreamGone
from relay.mirror import command
from relay.mirror.git import GitTree, Mirror

GONE = "0123456789abcdef0123456789abcdef01234567"
ENV = {
    "PATH": os.environ["PATH"],
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_{what}": "t" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


class Upstream:
    """A small repository with a working tree."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True)
        self.git("init", "-q", "-b", "main")

    def git(self, *args: str) -> str:
        done = subprocess.run(["git", *args], cwd=self.path, env=ENV, capture_output=True, check=True, text=True)
        return done.stdout.strip()

    def commit(self, files: dict[str, bytes | None], message: str = "c") -> str:
        for name, content in files.items():
            target = self.path / name
            if content is None:
                target.unlink()
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def upstream(tmp_path):
    return Upstream(tmp_path / "upstream")


@pytest.fixture
def mirror(tmp_path, upstream):
    return Mirror(str(upstream.path), tmp_path / "data" / "mirror.git", fetch_timeout_s=30)


def refs(mirror: Mirror) -> str:
    return subprocess.run(
        ["git", f"--git-dir={mirror.path}", "for-each-ref"], env=ENV, capture_output=True, check=True, text=True
    ).stdout


def test_tree_lists_and_reads_the_files_of_a_commit(upstream, mirror):
    sha = upstream.commit({"test/test_a.py": b"a = 1\n", "README": b"hi", "test/bin.dat": b"\0\1\n\n"})
    later = upstream.commit({"test/test_a.py": b"a = 2\n", "README": None})
    mirror.ensure(sha, later)
    with GitTree(mirror, sha) as tree, mirror.tree(later) as new:
        assert set(tree.paths()) == {"test/test_a.py", "README", "test/bin.dat"}
        assert tree.read("test/test_a.py") == b"a = 1\n"
        assert tree.read("test/bin.dat") == b"\0\1\n\n"
        assert new.read("test/test_a.py") == b"a = 2\n"
        assert tree.paths()["test/bin.dat"] == new.paths()["test/bin.dat"]
        assert tree.paths()["test/test_a.py"] != new.paths()["test/test_a.py"]
        with pytest.raises(KeyError):
            new.read("README")


def test_links_and_submodules_are_not_files_of_a_tree(upstream, mirror):
    (upstream.path / "link").symlink_to("/etc/passwd")
    (upstream.path / "sub").mkdir()
    upstream.git("update-index", "--add", "--cacheinfo", f"160000,{GONE},sub")
    sha = upstream.commit({"a.py": b"a"})
    mirror.ensure(sha)
    assert GONE in upstream.git("ls-tree", sha)
    with mirror.tree(sha) as tree:
        assert set(tree.paths()) == {"a.py"}


def test_odd_names_and_many_threads(upstream, mirror):
    files = {f"d/ü {i}\n-.py": f"{i}".encode() for i in range(20)}
    sha = upstream.commit(files)
    mirror.ensure(sha)
    with mirror.tree(sha) as tree:
        wrong: list[str] = []

        def read_all() -> None:
            wrong.extend(name for name in files for _ in range(5) if tree.read(name) != files[name])

        threads = [threading.Thread(target=read_all) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong


def test_ensure_fetches_only_what_is_missing_and_needs_no_upstream_for_the_rest(upstream, mirror):
    first = upstream.commit({"a": b"1"})
    mirror.ensure(first)
    away = upstream.path.with_name("away")
    upstream.path.rename(away)
    mirror.ensure(first)  # there already
    with pytest.raises(UpstreamGone, match=GONE):
        mirror.ensure(first, GONE)
    away.rename(upstream.path)
    second = upstream.commit({"a": b"2"})
    mirror.ensure(first, second)
    assert mirror.merge_base(first, second) == first


def test_a_server_that_serves_no_commit_by_id(upstream, mirror, monkeypatch):
    base = upstream.commit({"a": b"1"})
    upstream.git("checkout", "-q", "--detach")
    head = upstream.commit({"a": b"2"})
    upstream.git("update-ref", "refs/pull/7/head", upstream.commit({"a": b"3"}))  # pushed to meanwhile
    upstream.git("checkout", "-q", "main")
    upstream.commit({"b": b"1"})
    monkeypatch.setitem(command._CONFIG, "protocol.version", "0")
    with pytest.raises(UpstreamGone, match=head):
        mirror.ensure(base, head)
    change = mirror.change(base, head, pr_number=7)
    assert [(f.path, f.old, f.new) for f in change.files] == [("a", b"1", b"2")]


def test_a_gone_commit_is_named_and_the_others_are_still_fetched(upstream, mirror):
    sha = upstream.commit({"a": b"1"})
    with pytest.raises(UpstreamGone, match=f"commit {GONE} cannot be fetched") as caught:
        mirror.ensure(sha, GONE, pr_number=3)
    assert sha not in caught.value.message
    with mirror.tree(sha) as tree:
        assert tree.read("a") == b"1"


@pytest.mark.parametrize(("name", "kind"), [("HEAD^{tree}", "tree"), ("HEAD:a", "blob"), ("names-a-file", "tag")])
@pytest.mark.parametrize("known", [False, True], ids=["fetched", "there already"])
def test_what_is_no_commit_is_called_what_it_is(upstream, mirror, name, kind, known):
    sha = upstream.commit({"a": b"1"})
    upstream.git("tag", "-a", "-m", "t", "names-a-file", "HEAD:a")
    odd = upstream.git("rev-parse", name)
    if known:
        mirror.ensure(sha)
    for _ in range(2):
        with pytest.raises(UpstreamGone, match=f"^{odd} of .* is a {kind}, not a commit") as caught:
            mirror.ensure(sha, odd, pr_number=3)
        assert "commit's id" in caught.value.hint
        assert odd not in refs(mirror)
    with mirror.tree(sha) as tree:
        assert tree.read("a") == b"1"


@pytest.mark.parametrize("evil", ["--upload-pack=touch x", "HEAD", "", "a" * 39, "A" * 40, "a" * 40 + "\n", "a" * 41])
def test_only_commit_ids_reach_git(mirror, upstream, evil, tmp_path):
    upstream.commit({"a": b"1"})
    for call in (lambda: mirror.ensure(evil), lambda: mirror.tree(evil), lambda: mirror.merge_base(evil, GONE)):
        with pytest.raises(UpstreamGone, match="is not a commit id"):
            call()
    assert not list(tmp_path.glob("**/x"))


@pytest.mark.parametrize("url", ["ext::sh -c touch% x", "-u", "http://h/x", "git://h/x", "", "fd::17"])
def test_urls_that_could_run_something_are_refused(url, tmp_path):
    with pytest.raises(SettingsError, match="upstream_url"):
        Mirror(url, tmp_path / "m.git")


def test_change_is_counted_from_the_merge_base(upstream, mirror):
    common = upstream.commit({"a": b"1", "b": b"1"})
    upstream.git("checkout", "-q", "-b", "pr")
    head = upstream.commit({"a": b"2"})
    upstream.git("checkout", "-q", "main")
    base = upstream.commit({"b": b"2"})
    change = mirror.change(base, head, "title", "body")
    assert (change.base, change.head, change.title, change.body) == (common, head, "title", "body")
    assert [f.path for f in change.files] == ["a"]


def test_every_kind_of_change(upstream, mirror):
    text = b"".join(b"line %d\n" % i for i in range(40))
    base = upstream.commit({"keep": b"k", "mod": b"1", "gone": b"g", "old_name": text, "bin": b"\0a", "big": b"x"})
    (upstream.path / "sub").mkdir()
    upstream.git("update-index", "--add", "--cacheinfo", f"160000,{GONE},sub")
    (upstream.path / "old_name").rename(upstream.path / "new_name")
    head = upstream.commit(
        {"mod": b"2", "gone": None, "new": b"n", "new_name": text + b"more\n", "bin": b"\0b", "big": b"y" * 2000}
    )
    change = mirror.change(base, head, max_file_bytes=1500)
    by_path = {f.path: f for f in change.files}
    assert set(by_path) == {"mod", "gone", "new", "new_name", "bin", "big", "sub"}
    assert (by_path["mod"].status, by_path["mod"].old, by_path["mod"].new) == ("modified", b"1", b"2")
    assert (by_path["gone"].status, by_path["gone"].old, by_path["gone"].new) == ("removed", b"g", None)
    assert (by_path["new"].status, by_path["new"].old, by_path["new"].new) == ("added", None, b"n")
    assert (by_path["new_name"].status, by_path["new_name"].old_path) == ("renamed", "old_name")
    assert by_path["new_name"].old == text
    assert by_path["bin"].binary
    assert not by_path["mod"].binary
    assert (by_path["big"].binary, by_path["big"].old, by_path["big"].new) == (True, None, None)
    assert (by_path["sub"].submodule, by_path["sub"].old, by_path["sub"].new) == (True, None, GONE.encode())


def test_a_shallow_upstream_without_the_base(upstream, tmp_path):
    base = upstream.commit({"a": b"1"})
    upstream.commit({"a": b"2"})
    head = upstream.commit({"a": b"3"})
    shallow = tmp_path / "shallow"
    subprocess.run(["git", "clone", "-q", "--depth=1", upstream.path.as_uri(), shallow], env=ENV, check=True)
    mirror = Mirror(str(shallow), tmp_path / "m.git", fetch_timeout_s=30)
    mirror.ensure(head)
    with mirror.tree(head) as tree:
        assert tree.read("a") == b"3"
    with pytest.raises(UpstreamGone, match=f"commit {base} cannot be fetched"):
        mirror.change(base, head)


def test_histories_that_do_not_meet_are_compared_as_they_are(upstream, mirror):
    base = upstream.commit({"a": b"1", "b": b"1"})
    upstream.git("checkout", "-q", "--orphan", "other")
    head = upstream.commit({"a": b"2"})
    change = mirror.change(base, head)
    assert change.base == base
    assert [f.path for f in change.files] == ["a"]


def test_a_mirror_that_was_seeded_shallow_gets_its_history(upstream, tmp_path):
    upstream.commit({"a": b"1"})
    common = upstream.commit({"a": b"2"})
    base = upstream.commit({"b": b"1"})
    upstream.git("checkout", "-q", "-b", "pr", common)
    head = upstream.commit({"a": b"3"})
    seeded = tmp_path / "m.git"
    url = upstream.path.as_uri()
    subprocess.run(
        ["git", "clone", "-q", "--bare", "--no-single-branch", "--depth=1", url, seeded], env=ENV, check=True
    )
    change = Mirror(url, seeded, fetch_timeout_s=30).change(base, head)
    assert change.base == common
    assert [f.path for f in change.files] == ["a"]


def test_an_unreachable_upstream_says_so(tmp_path):
    mirror = Mirror(str(tmp_path / "nowhere"), tmp_path / "m.git", fetch_timeout_s=5)
    with pytest.raises(UpstreamGone, match=r"cannot be fetched from .*nowhere"):
        mirror.ensure(GONE)


def test_a_fetch_that_hangs_is_ended_with_all_its_processes(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}/upstream"
        with pytest.raises(UpstreamGone, match="took longer than 1 s"):
            Mirror(url, tmp_path / "m.git", fetch_timeout_s=1).ensure(GONE)
        assert not [p.info for p in psutil.process_iter(["cmdline"]) if url in (p.info["cmdline"] or ())]


def test_hooks_and_config_of_the_mirror_run_nothing(upstream, mirror, tmp_path):
    mirror.ensure(upstream.commit({"a": b"1"}))
    ran = tmp_path / "ran"
    hook = mirror.path / "hooks" / "reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {ran}\n")
    hook.chmod(0o755)
    mirror.ensure(upstream.commit({"a": b"2"}))
    assert not ran.exists()


def test_what_a_killed_fetch_left_does_not_stop_the_next(upstream, mirror):
    mirror.ensure(upstream.commit({"a": b"1"}))
    sha = upstream.commit({"a": b"2"})
    (mirror.path / "refs/relay/commits" / f"{sha}.lock").touch()
    (mirror.path / "packed-refs.lock").touch()
    (mirror.path / "shallow.lock").touch()
    mirror.ensure(sha)
    assert sha in refs(mirror)


def test_many_processes_at_once_fetch_one_mirror(upstream, mirror):
    sha = upstream.commit({"a": b"1"})
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: Mirror(mirror.url, mirror.path, fetch_timeout_s=30).ensure(sha), range(4)))
    assert sha in refs(mirror)
    assert [p.name for p in mirror.path.parent.iterdir() if p.name.startswith("mirror.git.") and p.is_dir()] == []


def test_archive_holds_the_asked_files_and_is_the_same_twice(upstream, mirror):
    (upstream.path / "test").mkdir()
    (upstream.path / "test/link").symlink_to("/etc/passwd")
    (upstream.path / "run.sh").write_bytes(b"#!")
    (upstream.path / "run.sh").chmod(0o755)
    sha = upstream.commit({"test/test_a.py": b"a" * 1_000_000, "test/x/b.py": b"b", "torch/c.py": b"c", "testing": b""})
    asked = ("test", "torch/c.py", "run.sh", "torch/gone.py")
    packed = b"".join(mirror.archive(sha, asked))
    assert packed == b"".join(mirror.archive(sha, asked))
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as tar:
        assert tar.getnames() == ["run.sh", "test/test_a.py", "test/x/b.py", "torch/c.py"]
        assert [m.mode for m in tar.getmembers()] == [0o755, 0o644, 0o644, 0o644]
        assert tar.extractfile("test/test_a.py").read() == b"a" * 1_000_000
    with pytest.raises(NotFound, match="none of nothing"):
        mirror.archive(sha, ["nothing"])


def test_archive_leaves_folders_out_and_adds_the_bases_texts(upstream, mirror):
    base = upstream.commit({"test/a.py": b"1", "test/cpp/big.bin": b"x", "test/cpp2.py": b"", "torch/c.py": b"old"})
    head = upstream.commit({"torch/c.py": b"new", "torch/added.py": b"a"})
    files = ("torch/c.py", "torch/added.py")
    packed = b"".join(mirror.archive(head, ("test", *files), without=("test/cpp",), base=base, base_paths=files))
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as tar:
        found = {name: tar.extractfile(name).read() for name in tar.getnames()}
    assert found == {
        ".base/torch/c.py": b"old",
        "test/a.py": b"1",
        "test/cpp2.py": b"",
        "torch/added.py": b"a",
        "torch/c.py": b"new",
    }
