"""``relay run`` by hand: with --base a change of torch's own Python files runs, and what does not is named; a test that
is not there, or one variant's name, is no success."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from relay.cli import app
from relay.cli.run_change import laid_over
from relay.errors import UpstreamGone
from relay.worker import overlay

DEVICES = Path(__file__).resolve().parents[2] / "test_configs"
CHANGED = "torch/utils/_mode_utils.py"
"""a small file of the installed torch; its text is taken from there"""
SOURCE = """\
import torch.utils._mode_utils
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_utils import TestCase, run_tests

class TestMarked(TestCase):
    def test_unmarked(self, device):
        self.assertFalse(hasattr(torch.utils._mode_utils, "MARKED"))

class TestElsewhere(TestCase):
    def test_of_another_device(self, device):
        pass

instantiate_device_type_tests(TestMarked, globals())
instantiate_device_type_tests(TestElsewhere, globals(), only_for="cuda")
"""
TEST = "test/test_marked.py::TestMarked::test_unmarked"


def git(tree: Path, *args: str) -> str:
    mine = ("-c", "user.name=a", "-c", "user.email=a@b.invalid", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *mine, "-C", str(tree), *args], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Upstream, whose ``main`` is the installed torch and whose ``change`` marks a module."""
    site = overlay.installed_site()
    assert site is not None
    tree = tmp_path / "tree"
    for path, text in (
        (CHANGED, (site / CHANGED).read_text("utf-8")),
        ("torch/csrc/x.cpp", "int x;\n"),
        ("test/test_marked.py", SOURCE),
    ):
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text)
    git(tree.parent, "init", "-q", "-b", "main", str(tree))
    git(tree, "add", ".")
    git(tree, "commit", "-q", "-m", "base")
    git(tree, "checkout", "-q", "-b", "change")
    with (tree / CHANGED).open("a") as file:
        file.write("MARKED = True\n")
    git(tree, "commit", "-q", "-a", "-m", "mark it")
    return tree


def run(tree: Path, *words: str, device: str = "unlimited") -> tuple[int, str]:
    done = CliRunner().invoke(app, ["run", "--tree", str(tree), "--configs", str(DEVICES / device), *words])
    return done.exit_code, " ".join(done.output.split())


def test_a_change_of_torch_fails_at_home_as_in_the_relay(tree: Path) -> None:
    code, said = run(tree, TEST)
    assert code == 0, said
    code, said = run(tree, TEST, "--base", "main")
    assert code == 1, said
    assert f"laid over the installed torch: {CHANGED}" in said


def test_what_the_installed_torch_cannot_be_given_is_named(tree: Path) -> None:
    (tree / "torch/csrc/x.cpp").write_text("int y;\n")  # not committed
    found = laid_over(tree, "main")
    assert found.files == (CHANGED,)
    assert "only a build" in found.left["torch/csrc/x.cpp"]
    with pytest.raises(UpstreamGone, match="no commit 'nowhere'"):
        laid_over(tree, "nowhere")


def test_a_change_of_another_torch_is_not_laid_over_this_one(tree: Path) -> None:
    git(tree, "checkout", "-q", "main")
    (tree / CHANGED).write_text("".join(f"line_{n} = {n}\n" for n in range(200)))
    git(tree, "commit", "-q", "-a", "-m", "another release")
    (tree / CHANGED).write_text((tree / CHANGED).read_text() + "MARKED = True\n")
    found = laid_over(tree, "main")
    assert found.files == ()
    assert "share only" in found.left[CHANGED]
    code, said = run(tree, TEST, "--base", "main")
    assert code == 0, said
    assert f"not exercised: {CHANGED}: its base" in said


def test_what_was_named_and_did_not_run_is_no_success(tree: Path) -> None:
    file = "test/test_marked.py"
    words = [f"{TEST}_spyre", f"{file}::TestMarked::test_unmarkd", f"{file}::TestElsewhere::test_of_another_device"]
    code, said = run(tree, *words, device="spyre")
    assert code == 2, said
    assert f"{TEST} runs all of them" in said
    assert "there is no such test (near: TestMarked::test_unmarked)" in said
    assert "upstream does not make it for this device" in said


def test_why_a_runner_gave_up_is_said_once(tree: Path) -> None:
    with (tree / CHANGED).open("a") as file:
        file.write("raise RuntimeError('nobody imports this')\n")
    command = [sys.executable, "-m", "relay.cli", "run", "--tree", str(tree), "--configs", str(DEVICES / "unlimited")]
    done = subprocess.run([*command, "--base", "main", TEST], capture_output=True, text=True, check=False)
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 3, said
    assert said.count("nobody imports this") == 1, said
