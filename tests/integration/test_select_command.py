"""`relay select` on a real git repository."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from relay.cli import select as cli_select
from relay.cli.terminal import Terminal
from relay.errors import RelayError, SettingsError
from selector.errors import SelectorError

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
    code = cli_select.run(upstream, base, head, CONFIGS, opdb, console=Terminal(file=out, width=80), **options)  # type: ignore[arg-type]
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


def test_what_is_on_trial_is_told_and_selects_nothing(upstream: Path, opdb: Path) -> None:
    (upstream / "test" / "test_x.py").write_text(TEST.replace("torch.ones(helper()", "torch.zeros(1"))
    git(upstream, "commit", "--quiet", "--all", "--message", "edits one test")
    _, text = run(upstream, opdb, explain=True)
    assert "rule:siblings  would keep 1 more, and drop 0" in text
    assert "test/test_x.py::TestX::test_other: stands beside test_uses in TestX" in text
    _, told = run(upstream, opdb, as_json=True)
    value = json.loads(told)
    (said,) = [one for one in value["on_trial"] if one["subject"] == "rule:siblings"]
    assert said["adds"] == ["test/test_x.py::TestX::test_other"]
    assert [one["test"] for one in value["tests"]] == ["test/test_x.py::TestX::test_uses"]


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
    assert "2 changed files reach 2 tests (the tree has 3 test methods)" in text
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


# -------------------------------------------------------------------------------------- changes that are no commit here


def by(upstream: Path, opdb: Path, **how: object) -> dict[str, object]:
    out = io.StringIO()
    code = cli_select.run(
        upstream,
        str(how.pop("base", "")),
        str(how.pop("head", "")),
        CONFIGS,
        opdb,
        as_json=True,
        explain=False,
        console=Terminal(file=out, width=80),
        **how,  # type: ignore[arg-type]
    )
    assert code == 0
    return json.loads(out.getvalue())  # type: ignore[no-any-return]


def said(folder: Path, *args: str) -> str:
    return subprocess.run(["git", "-C", str(folder), *args], check=True, capture_output=True, text=True).stdout


def comparison(upstream: Path, **change: object) -> dict[str, object]:
    """What GitHub would answer for main~1...main."""
    base, head = said(upstream, "rev-parse", "main~1", "main").split()
    patch = said(upstream, "diff", "main~1", "main", "--", "test/test_x.py")
    hunks = patch[patch.index("@@") :].rstrip("\n")
    files = [{"filename": "test/test_x.py", "status": "modified", "changes": 2, "patch": hunks}]
    commit = {"sha": head, "commit": {"message": "A title\n\nA body"}}
    return {"merge_base_commit": {"sha": base}, "commits": [commit], "files": files, **change}


SAME = ("tests", "counts", "runtime", "not_exercised", "left_out")


@pytest.mark.parametrize("kind", ["diff", "mail", "comparison"])
def test_a_patch_and_a_comparison_select_what_the_commit_selects(
    upstream: Path, opdb: Path, tmp_path: Path, kind: str
) -> None:
    wanted = by(upstream, opdb, base="main~1", head="main")
    path = tmp_path / "change"
    if kind == "comparison":
        notes = said(upstream, "diff", "main~1", "main", "--", "notes.md")
        value = comparison(upstream)
        value["files"].append(  # type: ignore[attr-defined]
            {
                "filename": "notes.md",
                "status": "modified",
                "changes": 2,
                "patch": notes[notes.index("@@") :].rstrip("\n"),
            }
        )
        path.write_text(json.dumps(value))
        found = by(upstream, opdb, compare=str(path))
        assert found["title"] == "A title"
    else:
        args = ("diff", "main~1", "main") if kind == "diff" else ("format-patch", "--stdout", "main~1..main")
        path.write_text(said(upstream, *args))
        found = by(upstream, opdb, base="main~1", patch=path)
        assert (found["title"] != "") == (kind == "mail")
    assert {key: found[key] for key in SAME} == {key: wanted[key] for key in SAME}
    assert wanted["tests"]


def test_a_comparison_adds_renames_and_removes(upstream: Path, opdb: Path, tmp_path: Path) -> None:
    added = "@@ -0,0 +1,2 @@\n+class TestN(TestCase):\n+    def test_n(self, device): pass"
    removed = "@@ -1 +0,0 @@\n-a\n\\ No newline at end of file"
    files = [
        {"filename": "test/test_new.py", "status": "added", "changes": 2, "patch": added},
        {"filename": "test/test_y é.py", "status": "renamed", "changes": 0, "previous_filename": "test/test_x.py"},
        {"filename": "setup.cfg", "status": "removed", "changes": 1, "patch": removed},
    ]
    path = tmp_path / "compare.json"
    path.write_text(json.dumps(comparison(upstream, files=files)))
    found = by(upstream, opdb, compare=str(path))
    statuses = {one["path"]: (one["status"], one["old_path"]) for one in found["files"]}  # type: ignore[attr-defined]
    assert statuses["test/test_new.py"][0] == "added"
    assert statuses["test/test_y é.py"] == ("renamed", "test/test_x.py")
    assert statuses["setup.cfg"][0] == "removed"
    assert said(upstream, "status", "--porcelain") == ""  # nothing is written to what was given


@pytest.mark.parametrize(
    ("path", "where"), [("test/test_x.py", "impacted"), ("torch/functional.py", "widened"), ("test/x.bin", "widened")]
)
def test_what_a_comparison_leaves_out_is_never_taken_for_read(
    upstream: Path, opdb: Path, tmp_path: Path, path: str, where: str
) -> None:
    file = tmp_path / "compare.json"
    file.write_text(json.dumps(comparison(upstream, files=[{"filename": path, "status": "modified", "changes": 9}])))
    found = by(upstream, opdb, compare=str(file))
    assert any(path in text for text in found["warnings"])  # type: ignore[attr-defined]
    assert found["counts"]["impacted"] > 0  # type: ignore[index]
    verdicts = {d["verdict"] for d in found["decisions"] if d["stage"] == "discover"}  # type: ignore[attr-defined]
    assert where in verdicts
    assert found["not_exercised"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("not json", "is not JSON"),
        ("[]", "has no list of files"),
        ('{"files": []}', "has no merge_base_commit"),
        ('{"files": [1], "merge_base_commit": {"sha": "%s"}}' % ("a" * 40), "file 0 of the comparison"),
        ('{"files": [], "merge_base_commit": {"sha": "%s"}}' % ("a" * 40), "has no commit"),
    ],
)
def test_a_bad_comparison_says_what_is_wrong(
    upstream: Path, opdb: Path, tmp_path: Path, content: str, words: str
) -> None:
    path = tmp_path / "compare.json"
    path.write_text(content)
    with pytest.raises(RelayError, match=words):
        by(upstream, opdb, compare=str(path))


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ("--- a/test/test_x.py\n+++ b/test/test_x.py\n@@ -1 +1 @@\n-nothing like it\n+x\n", "apply: patch failed"),
        ("--- a/gone.py\n+++ b/gone.py\n@@ -1 +1 @@\n-a\n+x\n", "gone.py: does not exist"),
        ("this is no patch\n", "No valid patches"),
        ("--- a/../../etc/x\n+++ b/../../etc/x\n@@ -0,0 +1 @@\n+x\n", "does not apply"),
    ],
)  # fmt: skip
def test_a_patch_that_does_not_apply_names_the_place(
    upstream: Path, opdb: Path, tmp_path: Path, patch: str, words: str
) -> None:
    path = tmp_path / "change.patch"
    path.write_text(patch)
    with pytest.raises(RelayError, match=words) as caught:
        by(upstream, opdb, base="main", patch=path)
    assert "--base" in str(caught.value)


def test_one_source_and_a_table_that_can_be_read(upstream: Path, opdb: Path, tmp_path: Path) -> None:
    with pytest.raises(RelayError, match="2 changes are given"):
        by(upstream, opdb, base="main", head="main", patch=tmp_path / "x")
    with pytest.raises(RelayError, match="0 changes are given"):
        by(upstream, opdb, base="main")
    table = tmp_path / "measured.json"
    table.write_text(json.dumps({"setup.cfg": 1}))
    with pytest.raises(SelectorError, match="has no object of test files"):
        by(upstream, opdb, base="main~1", head="main", measured=table)
    with pytest.raises(SelectorError, match="the trace is not gzip"):
        by(upstream, opdb, base="main~1", head="main", trace=table)
    with pytest.raises(SettingsError, match="No such file"):
        by(upstream, opdb, base="main~1", head="main", trace=tmp_path / "none")
