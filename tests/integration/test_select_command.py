"""`relay select` on a real git repository."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from relay import cli_select

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "test_configs" / "spyre"
TEST = """
from torch.testing._internal.common_device_type import instantiate_device_type_tests
def helper(): return 1
class TestX(TestCase):
    def test_uses(self, device): torch.ones(helper(), device=device)
    def test_other(self, device): torch.ones(1, device=device)
    @onlyCUDA
    def test_cuda(self, device): helper()
instantiate_device_type_tests(TestX, globals())
"""
OPDB = {"torch": "2.13.0", "modules": [], "ops": []}


def git(folder: Path, *args: str) -> None:
    who = {f"GIT_{r}_{k}": v for r in ("AUTHOR", "COMMITTER") for k, v in (("NAME", "A"), ("EMAIL", "a@example.org"))}
    env = {**os.environ, **who, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "-C", str(folder), *args], check=True, env=env, capture_output=True)


@pytest.fixture
def upstream(tmp_path: Path) -> Path:
    folder = tmp_path / "up"
    (folder / "test").mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    for title, test, extra in (
        ("base", TEST, "a"),
        ("[red]Change[/red] the \x1b[31mhelper", TEST.replace("return 1", "return 2"), "b"),
    ):
        (folder / "test" / "test_x.py").write_text(test)
        (folder / "setup.cfg").write_text("a")
        (folder / "notes.md").write_text(extra)
        git(folder, "add", "--all")
        git(folder, "commit", "--quiet", "--message", title)
    return folder


@pytest.fixture
def opdb(tmp_path: Path) -> Path:
    path = tmp_path / "opdb.json"
    path.write_text(json.dumps(OPDB))
    return path


def run(upstream: Path, opdb: Path | None, *, base: str = "main~1", head: str = "main", **how: bool) -> tuple[int, str]:
    out = io.StringIO()
    options = {"as_json": False, "explain": False, **how}
    code = cli_select.run(upstream, base, head, CONFIGS, opdb, console=Console(file=out, width=80), **options)  # type: ignore[arg-type]
    return code, out.getvalue()


def test_json_says_what_runs_and_why(upstream: Path, opdb: Path) -> None:
    code, text = run(upstream, opdb, as_json=True)
    value = json.loads(text)
    assert code == 0
    assert [test["test"] for test in value["tests"]] == ["test/test_x.py::TestX::test_uses"]
    assert value["counts"]["impacted"] == 2
    decided = {(d["stage"], d["subject"].rpartition("::")[2]): d["code"] for d in value["decisions"]}
    assert decided["discover", "test_uses"] == "helper"
    assert decided["triage", "test_cuda"] == "decorator-other-device"
    assert decided["discover", "notes.md"] == "cannot-matter"


def test_explain_names_reasons_places_and_drops(upstream: Path, opdb: Path) -> None:
    code, text = run(upstream, opdb, explain=True)
    assert code == 0
    assert "test/test_x.py::TestX::test_uses" in text
    assert "reaches helper of test/test_x.py (test/test_x.py:3)" in text
    assert "it skips itself everywhere but on cuda" in text
    assert "@onlyCUDA (test/test_x.py:7)" in text
    assert "notes.md: documentation" in text
    assert "test_other" not in text


def test_upstreams_text_is_printed_as_data(upstream: Path, opdb: Path) -> None:
    _, text = run(upstream, opdb, explain=True)
    assert "[red]Change[/red] the" in text
    assert "\x1b" not in text


def test_a_summary_is_one_line_a_test(upstream: Path, opdb: Path) -> None:
    code, text = run(upstream, opdb)
    assert code == 0
    assert "2 of 3 tests" in text
    assert [line.split() for line in text.splitlines() if "::" in line] == [
        ["test/test_x.py::TestX::test_uses", "helper"]
    ]


def test_a_bare_repository_will_do(upstream: Path, opdb: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare.git"
    subprocess.run(["git", "clone", "--quiet", "--bare", str(upstream), str(bare)], check=True, capture_output=True)
    assert run(bare, opdb, as_json=True)[0] == 0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"base": "nowhere"}, "has no commit 'nowhere'"),
        ({"head": "--output=x"}, "is not a revision"),
        ({"upstream": "none"}, "is not a folder"),
        ({"upstream": "."}, "is not a git repository"),
        ({"opdb": "none.json"}, "No such file"),
        ({"opdb": "up/notes.md"}, "is not JSON"),
    ],
)
def test_what_cannot_be_used_is_one_sentence_a_hint_and_2(
    upstream: Path, opdb: Path, tmp_path: Path, change: dict[str, str], says: str
) -> None:
    where = tmp_path / change["upstream"] if "upstream" in change else upstream
    database = tmp_path / change["opdb"] if "opdb" in change else opdb
    command = [sys.executable, "-m", "relay.cli", "select", "--upstream", str(where), "--opdb", str(database)]
    command += [f"--base={change.get('base', 'main~1')}", f"--head={change.get('head', 'main')}"]
    done = subprocess.run([*command, "--configs", str(CONFIGS)], capture_output=True, text=True, check=False)
    sentence, hint = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence.startswith("relay: ")
    assert says in sentence
    assert hint.startswith("  ")


def test_the_command_itself(upstream: Path, opdb: Path) -> None:
    command = [str(Path(sys.executable).with_name("relay")), "select", "--upstream", str(upstream), "--base", "main~1"]
    if not Path(command[0]).exists():
        pytest.skip("the relay command is not installed beside python: run make test")
    done = subprocess.run(
        [*command, "--head", "main", "--configs", str(CONFIGS), "--opdb", str(opdb), "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["counts"]["planned"] == 1
