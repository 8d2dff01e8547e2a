"""``relay run`` on files that do everything a test can do: every outcome, in every report, with its reason."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from relay.cli import app

pytestmark = pytest.mark.torch

SOURCE = """
import os, signal, time, unittest
import torch
from torch.testing._internal.common_utils import TestCase
from torch.testing._internal.common_device_type import dtypes, instantiate_device_type_tests

class TestAll(TestCase):
    def test_passes(self, device):
        self.assertEqual(torch.ones(2, device=device) + 1, torch.full((2,), 2.0, device=device))
    def test_fails(self, device):
        self.assertEqual(1, 2)
    def test_skips_itself(self, device):
        self.skipTest("no tea")
    def test_skipped(self, device):
        raise AssertionError("ran")
    def test_expected(self, device):
        raise RuntimeError("as expected")
    def test_better(self, device):
        pass
    def test_better_strict(self, device):
        pass
    def test_expected_skips_itself(self, device):
        self.skipTest("nothing shown")
    def test_crashes(self, device):
        os.kill(os.getpid(), signal.SIGSEGV)
    def test_hangs(self, device):
        time.sleep(600)
    def test_tautology(self, device):
        self.assertTrue(True)
    @dtypes(torch.complex64)
    def test_emptied(self, device, dtype):
        pass

class TestSetUp(TestCase):
    def setUp(self):
        raise RuntimeError("not set up")
    def test_errs(self, device):
        pass

class TestPlain(TestCase):
    def test_plain_skipped(self):
        raise AssertionError("ran")

instantiate_device_type_tests(TestAll, globals())
instantiate_device_type_tests(TestSetUp, globals())
"""
CONFIG = """\
test_suite_config:
  files:
    - path: ${TORCH_ROOT}/test/test_all.py
      unlisted_test_mode: mandatory_success
      tests:
        - {names: [TestAll::test_skipped], mode: skip, reason: aborts the process, issue: me/mine#1}
        - {names: [TestPlain::test_plain_skipped], mode: skip, reason: plain}
        - {names: [TestAll::test_expected, TestAll::test_expected_skips_itself], mode: xfail, reason: not yet}
        - {names: [TestAll::test_better], mode: xfail, reason: was broken}
        - {names: [TestAll::test_better_strict], mode: xfail_strict, reason: was broken}
        - {names: [TestAll::test_passes], tags: ["model__granite-3.3"]}
"""
SHEET = "capability: {name: little, device: spyre, dtypes: [float32, float16]}\n"


def lay(tmp: Path, source: str = SOURCE) -> list[str]:
    """Writes tree and device; the options that name them."""
    (tmp / "tree/test").mkdir(parents=True, exist_ok=True)
    (tmp / "tree/test/test_all.py").write_text(source)
    (tmp / "device").mkdir(exist_ok=True)
    (tmp / "device/all.yaml").write_text(CONFIG)
    (tmp / "device/capability.yaml").write_text(SHEET)
    return ["--tree", str(tmp / "tree"), "--configs", str(tmp / "device")]


def invoke(tmp: Path, *more: str, source: str = SOURCE) -> tuple[int, str]:
    where = lay(tmp, source)
    done = CliRunner().invoke(app, ["run", *where, *more])
    return done.exit_code, done.output


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, str]:
    tmp = tmp_path_factory.mktemp("outcomes")
    given = ["--out", str(tmp / "r.jsonl"), "--junit", str(tmp / "r.xml"), "--ctrf", str(tmp / "r.json")]
    before = tree_hash(tmp) if (tmp / "tree").exists() else None
    assert before is None
    code, output = invoke(tmp, "test/test_all.py", "--timeout", "3", *given)
    return tmp, code, output


def tree_hash(tmp: Path) -> dict[str, str]:
    files = [p for p in (tmp / "tree").rglob("*") if p.is_file()]
    return {str(p.relative_to(tmp)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def lines(tmp: Path) -> dict[str, dict[str, Any]]:
    read = [json.loads(line) for line in (tmp / "r.jsonl").read_text().splitlines()]
    return {line["test"].rpartition("::")[2]: line for line in read}


EXPECTED = {
    "test_passes": ("passed", None),
    "test_fails": ("failed", None),
    "test_skips_itself": ("self_skipped", "no tea"),
    "test_skipped": ("skipped", "aborts the process [me/mine#1]"),
    "test_expected": ("xfailed", "not yet"),
    "test_better": ("xpassed", "was broken"),
    "test_better_strict": ("xpassed", "was broken"),
    "test_expected_skips_itself": ("self_skipped", "nothing shown"),
    "test_crashes": ("crashed", None),
    "test_hangs": ("timed_out", None),
    "test_plain_skipped": ("skipped", "plain"),
}


def test_every_outcome_in_json_lines(ran: tuple[Path, int, str]) -> None:
    found = lines(ran[0])
    assert {name: (found[name]["outcome"], found[name]["reason"]) for name in EXPECTED} == EXPECTED
    assert found["test_errs"]["outcome"] in ("error", "failed")  # unittest runs setUp within the call
    assert found["test_skipped"]["entry"] == "all.yaml:6"
    assert found["test_passes"]["tags"] == ["model__granite-3.3"]


def test_engagement_is_what_the_device_ran(ran: tuple[Path, int, str]) -> None:
    found = lines(ran[0])
    assert found["test_passes"]["kernels"] > 0
    assert found["test_tautology"]["kernels"] == 0
    assert "unengaged" in ran[2]


def test_junit_has_reason_entry_and_engagement_as_properties(ran: tuple[Path, int, str]) -> None:
    root = ET.parse(ran[0] / "r.xml").getroot()
    cases = {case.get("name"): case for case in root.iter("testcase")}

    def said(name: str) -> dict[str | None, str | None]:
        return {p.get("name"): p.get("value") for p in cases[name + "_spyre"].iter("property")}

    skipped = said("test_skipped")
    assert skipped["reason"] == "aborts the process [me/mine#1]"
    assert (skipped["entry"], skipped["outcome"], skipped["engagement"]) == ("all.yaml:6", "skipped", "not-run")
    assert said("test_tautology")["engagement"] == "unengaged"
    assert said("test_passes")["tag.model__granite-3.3"] == "true"
    kinds = {n: [e.tag for e in c if e.tag in ("skipped", "failure", "error")] for n, c in cases.items()}
    assert kinds["test_better_strict_spyre"] == ["failure"]
    assert kinds["test_better_spyre"] == []
    assert kinds["test_crashes_spyre"] == kinds["test_hangs_spyre"] == ["error"]
    assert root.get("tests") == str(len(cases))


def test_ctrf_counts_add_up(ran: tuple[Path, int, str]) -> None:
    report = json.loads((ran[0] / "r.json").read_text())["results"]
    summary = report["summary"]
    assert summary["tests"] == len(report["tests"]) == sum(summary[k] for k in ("passed", "failed", "skipped", "other"))
    by_name = {t["name"]: t for t in report["tests"]}
    assert by_name["test_expected_spyre"]["status"] == "other"
    assert by_name["test_crashes_spyre"]["rawStatus"] == "crashed"


def test_an_emptied_test_says_why_and_the_rest_runs(ran: tuple[Path, int, str]) -> None:
    assert "test_emptied" in ran[2]
    assert "test_emptied" not in lines(ran[0])


def test_the_tree_is_not_written_to_and_the_exit_code_tells(ran: tuple[Path, int, str]) -> None:
    assert set(tree_hash(ran[0])) == {"tree/test/test_all.py"}
    assert ran[1] == 1


def test_tags_select_and_one_pass_is_a_pass(tmp_path: Path) -> None:
    out = ["--out", str(tmp_path / "r.jsonl")]
    code, _ = invoke(tmp_path, "test/test_all.py", "--tags", "model__granite-3.3 and not slow", *out)
    assert (code, list(lines(tmp_path))) == (0, ["test_passes"])


def test_nothing_collected_is_an_error(tmp_path: Path) -> None:
    code, output = invoke(tmp_path, "test/test_all.py::TestAll::test_gone")
    assert (code, "nothing was collected" in output) == (2, True)


def test_a_machine_without_a_torch_that_works_is_infrastructure(tmp_path: Path) -> None:
    """Exit code 3, and never 1: no test of it failed."""
    where = lay(tmp_path)
    (tmp_path / "broken/torch").mkdir(parents=True)
    (tmp_path / "broken/torch/__init__.py").write_text("raise ImportError('libtorch.so: cannot open shared object')\n")
    paths = os.pathsep.join([str(tmp_path / "broken"), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [
        sys.executable,
        "-c",
        "from relay.cli import main; main()",
        "run",
        "test/test_all.py::TestAll::test_passes",
    ]
    command += where
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "cannot open shared object" in done.stdout + done.stderr


def test_a_config_that_cannot_be_used_is_named_at_its_place(tmp_path: Path) -> None:
    where = lay(tmp_path)
    (tmp_path / "device/all.yaml").write_text(CONFIG.replace("mode: skip", "mode: skipp", 1))
    command = [sys.executable, "-c", "from relay.cli import main; main()", "run", "test/test_all.py", *where]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "all.yaml:6:50" in done.stderr
    assert "did you mean 'skip'?" in done.stderr


def test_a_file_that_cannot_be_imported_is_a_failure(tmp_path: Path) -> None:
    code, output = invoke(tmp_path, "test/test_all.py::TestAll::test_passes", source="import no_such_module\n")
    assert (code, "could not be imported" in output) == (1, True)
