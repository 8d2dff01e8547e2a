"""``relay upgrade`` over two commits and two folders, by its command line."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

from relay.torches import database_of
from selector.discover import DirectoryCache
from selector.opdb import to_json

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


def test_the_same_contents_are_compared_once(tmp_path: Path) -> None:
    old, new, cache = folder(tmp_path / "old", TEST), folder(tmp_path / "new", NEW), tmp_path / "cache"
    configs = Path(__file__).resolve().parents[2] / "test_configs" / "spyre"

    def value(*args: object) -> dict[str, object]:
        done = relay("--from", old, "--to", new, "--json", "--cache", cache, *args)
        assert done.returncode == 0, done.stderr
        found: dict[str, object] = json.loads(done.stdout)
        return found

    def without_times(found: dict[str, object]) -> dict[str, object]:
        return {k: v for k, v in found.items() if k not in ("seconds", "kept")}

    first, second = value(), value()
    assert (first["kept"], second["kept"]) == (False, True)
    assert without_times(first) == without_times(second)
    mine = tmp_path / "configs"
    shutil.copytree(configs, mine)
    (mine / "limits.yaml").write_text((mine / "limits.yaml").read_text() + "# another text\n")
    assert value("--configs", mine)["kept"] is False, "what the configs say is part of it"
    (new / "test" / "test_view_ops.py").write_text(NEW + "\nLATER = 1\n")
    assert value()["kept"] is False
    for kept in cache.rglob("upgrade*"):
        kept.write_bytes(b"damaged")
    again = value()
    assert (again["kept"], again["kinds"]) == (False, first["kinds"])


def test_a_run_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    old, new, cache = tmp_path / "old", tmp_path / "new", tmp_path / "cache"
    for at, text in ((old, TEST), (new, NEW)):
        for n in range(24):  # enough for the parser processes, in files that take a moment each
            (at / "test").mkdir(parents=True, exist_ok=True)
            more = "".join(f"\n\ndef helper_{n}_{i}(x):\n    return [x + {i}, {{'a': x}}]\n" for i in range(1000))
            (at / "test" / f"test_big_{n}.py").write_text(text + more)
    command = ["--from", old, "--to", new, "--json", "--cache", cache]
    with subprocess.Popen(
        [sys.executable, "-m", "relay.cli", "upgrade", *map(str, command)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        end = time.monotonic() + 120
        while len(list(cache.rglob("inv*"))) < 4:
            assert process.poll() is None, "it was done before it could be killed"
            assert time.monotonic() < end
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    there = {path: path.stat().st_mtime_ns for path in cache.rglob("inv*") if not path.name.startswith(".")}
    assert 4 <= len(there) < 48
    done = relay(*command)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["kinds"]["body"] == 24
    assert {path: path.stat().st_mtime_ns for path in there} == there, "what was parsed is not parsed again"
    assert len(list(cache.rglob("inv*"))) == 48


def test_edits_of_the_configs_are_written_as_a_patch_that_git_applies(tmp_path: Path) -> None:
    configs = tmp_path / "configs"
    shutil.copytree(Path(__file__).resolve().parents[2] / "test_configs" / "spyre", configs)
    entry = """    - path: ${TORCH_ROOT}/test/test_view_ops.py
      unlisted_test_mode: mandatory_success
      tests:
        - names: [TestView::test_old_name, TestView::test_kept] # seen on the device
          mode: xfail
          reason: no kernel
"""
    text = "test_suite_config:\n  extends: [upstream.yaml]\n  files:\n" + entry
    (configs / "view.yaml").write_text(text)
    old, new, out = folder(tmp_path / "old", TEST), folder(tmp_path / "new", NEW), tmp_path / "out"
    done = relay("--from", old, "--to", new, "--configs", configs, "--write", out)
    assert done.returncode == 0, done.stderr
    assert "## Configs" in done.stdout
    assert "`TestView::test_new_name`" in done.stdout
    subprocess.run(["git", "apply", out / "configs.patch"], cwd=configs, check=True)
    assert (configs / "view.yaml").read_text() == text.replace("test_old_name", "test_new_name")


def test_torches_that_cannot_be_asked(tmp_path: Path) -> None:
    """The torch that is installed here tells its op database in a process of its own; others say what is wrong."""
    old, new = folder(tmp_path / "old", TEST), folder(tmp_path / "new", NEW)
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    broken = tmp_path / "broken"
    (broken / "torch").mkdir(parents=True)
    (broken / "torch" / "version.py").write_text("__version__ = '9.9'\n")
    (broken / "torch" / "__init__.py").write_text("raise ImportError('libneeded.so: cannot open')\n")
    (tmp_path / "plain").write_text("no program")
    for where, words in (
        (tmp_path / "none", "no interpreter"),
        (tmp_path / "plain", "no interpreter"),
        (bare / "bin" / "python", "has no torch"),
        (tmp_path, "no torch in this folder"),
        (broken, "libneeded.so"),
    ):
        refused = relay("--from", old, "--to", new, "--torch-to", where)
        assert refused.returncode == 2, refused.stdout
        assert words in refused.stderr
        assert "Traceback" not in refused.stderr
    both = relay("--from", old, "--to", new, "--torch-to", sys.executable, "--opdb-to", tmp_path / "x.json")
    assert both.returncode == 2
    assert "--opdb-to and --torch-to" in both.stderr


def test_the_installed_torch_tells_its_own_op_database(tmp_path: Path) -> None:
    """In a process of its own that finds the two packages and nothing else of ours; once a version."""
    version = metadata.version("torch").split("+")[0]
    cache = DirectoryCache(tmp_path / "cache")
    found = database_of(Path(sys.executable), cache)
    assert found.torch == version
    known = Path(__file__).resolve().parents[1] / "data" / "opdb" / f"torch-{version}.json"
    assert to_json(found) == known.read_text(), "as it was exported for the tests"
    (kept,) = (tmp_path / "cache").rglob("opdb2-*")
    began = kept.stat().st_mtime_ns
    assert database_of(Path(sys.executable), cache) == found
    assert kept.stat().st_mtime_ns == began
    kept.write_bytes(b"damaged")
    assert database_of(Path(sys.executable), cache) == found
    old, new = folder(tmp_path / "old", TEST), folder(tmp_path / "new", NEW)
    torches = ("--torch-from", sys.executable, "--torch-to", sys.executable, "--cache", tmp_path / "cache")
    done = relay("--from", old, "--to", new, "--json", *torches)
    assert done.returncode == 0, done.stderr
    variants = json.loads(done.stdout)["variants"]
    assert variants["between"] == {"added": 0, "gone": 0, "kept": 3, "tests": 0, "by_rule": 0}
    assert "op databases" in variants["how"]
