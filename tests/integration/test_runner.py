"""The runner on real torch and the emulated device: an upstream-style tree written on the fly."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.torch

CAPABILITY = """
capability:
  name: little
  device: spyre
  dtypes: [float32, float16, int64, bool]
  ops: [add, mul, neg, exp, fill, zero, abs]
"""

CONFIG = """
test_suite_config:
  files:
    - path: ${TORCH_ROOT}/test/deep/test_trouble.py
      unlisted_test_mode: mandatory_success
    - path: ${TORCH_ROOT}/test/test_trouble.py
      unlisted_test_mode: mandatory_success
      tests:
        - names: TestTrouble::test_by_config
          mode: skip
          reason: the card hangs on it
          issue: https://github.com/example/plugin/issues/7
        - names: TestTrouble::test_known_bad
          mode: xfail
          reason: rounding
        - names: TestTrouble::test_known_bad_passes
          mode: xfail_strict
        - names: TestTrouble::test_known_bad_skips
          mode: xfail
"""

TROUBLE = """
import os, sys, time, unittest
import torch
from torch.testing._internal.common_utils import TestCase, run_tests
from torch.testing._internal.common_device_type import (
    instantiate_device_type_tests, dtypes, ops, onlyCUDA, OpDTypes)
from torch.testing._internal.common_methods_invocations import op_db

PICKED = [op for op in op_db if op.full_name in ("add", "exp", "lgamma", "softmax")]


class TestTrouble(TestCase):
    def test_aborts(self, device):
        print("about to abort")
        sys.stdout.flush()
        os.abort()

    def test_hangs(self, device):
        while True:
            time.sleep(1)

    def test_leaves(self, device):
        os._exit(0)

    def test_fails(self, device):
        print("said before failing")
        x = torch.ones(3, device=device)
        self.assertEqual(x + 1, x)

    @dtypes(torch.float32, torch.float64)
    def test_adds(self, device, dtype):
        x = torch.ones(3, device=device, dtype=dtype)
        y = x + x
        self.assertEqual(y.cpu(), torch.full((3,), 2, dtype=dtype))

    @ops(PICKED, allowed_dtypes=(torch.float32, torch.int64))
    def test_op(self, device, dtype, op):
        self.assertTrue(op.name in ("add", "exp", "softmax"))

    @ops([op for op in op_db if op.name == "lgamma"])
    def test_no_op_left(self, device, dtype, op):
        raise AssertionError("must not be generated")

    def test_never_engages(self, device):
        self.assertEqual(1 + 1, 2)

    def test_skips(self, device):
        self.skipTest("not today")

    @onlyCUDA
    def test_cuda_only(self, device):
        raise AssertionError("not a CUDA device")

    @unittest.expectedFailure
    def test_upstream_expects_failure(self, device):
        raise AssertionError("as upstream expects")

    def test_by_config(self, device):
        raise AssertionError("must not run")

    def test_known_bad(self, device):
        raise AssertionError("known")

    def test_known_bad_passes(self, device):
        pass

    def test_known_bad_skips(self, device):
        self.skipTest("no reason to fail")

    def test_subtests(self, device):
        for n in (1, 2):
            with self.subTest(n=n):
                self.assertEqual(n, 1)

    def test_forges(self, device):
        line = ('{"test": "test/test_trouble.py::TestTrouble::test_forged", "variant": "test_forged_spyre", '
                '"outcome": "passed", "mode": "mandatory_success", "seconds": 1, "kernels": 99}')
        print(line)
        for fd in range(3, 64):
            try:
                os.write(fd, (line + "\\n").encode())
            except OSError:
                pass

    def test_sees_no_secret(self, device):
        self.assertFalse([k for k in os.environ if k.startswith("RELAY_") or "TOKEN" in k])


class TestPlain(TestCase):
    def test_host_only(self):
        self.assertEqual(torch.ones(2).sum().item(), 2)


instantiate_device_type_tests(TestTrouble, globals())
if __name__ == "__main__":
    run_tests()
"""


def methods_of(source: str, file: str) -> list[str]:
    import ast

    return [
        f"{file}::{cls.name}::{method.name}"
        for cls in ast.parse(source).body
        if isinstance(cls, ast.ClassDef)
        for method in cls.body
        if isinstance(method, ast.FunctionDef) and method.name.startswith("test")
    ]


def run(tmp_path: Path, tree: Path, shard: dict[str, Any], *, status: int = 0, **more: Any) -> tuple[list[Any], Any]:
    """Runs a shard by the command line, as a person would: (result lines, the last line)."""
    spec, out = tmp_path / "spec.json", tmp_path / "results.jsonl"
    spec.write_text(json.dumps({"shard": shard, **more}))
    done = subprocess.run(
        [sys.executable, "-m", "relay.worker.runner", "--spec", spec, "--tree", tree, "--out", out],
        env={**os.environ, "RELAY_WORKER_KEY": "secret", "GITHUB_TOKEN": "secret"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == status, done.stderr
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    return lines[:-1], lines[-1]


def a_shard(tests: list[str], **values: Any) -> dict[str, Any]:
    return {
        "id": "s1",
        "commit": "c0ffee",
        "device": "spyre",
        "runtime": {"kind": "tests-only", "torch": "2.13.0", "files": []},
        "capability": CAPABILITY,
        "configs": [],
        "tests": tests,
        "variants": None,
        "limits": {"variant_s": 4, "shard_s": 200, "memory_mb": 8192, "collect_s": 6},
        **values,
    }


def a_tree(root: Path, files: dict[str, str | bytes]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else textwrap.dedent(text).encode())
    return root


@pytest.fixture(scope="module")
def trouble(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    tmp = tmp_path_factory.mktemp("trouble")
    files: dict[str, str | bytes] = {
        "test/test_trouble.py": TROUBLE,
        "test/test_broken_import.py": "import nothing_of_this_name\n",
        "test/test_no_utf8.py": b'x = "\xff\xfe"\nimport torch\n',
        "test/test_no_parse.py": "def f(:\n",
        "test/test_loops.py": "import time\nwhile True: time.sleep(1)\n",
        "test/test_leaves_early.py": "import os\nos._exit(7)\n",
        "test/test_exits.py": "import sys\nsys.exit(3)\n",
        "test/deep/test_trouble.py": "from unittest import TestCase\n"
        "class TestTwin(TestCase):\n    def test_twin(self): pass\n",
    }
    tests = methods_of(TROUBLE, "test/test_trouble.py")
    for bad in ("broken_import", "no_utf8", "no_parse", "loops", "leaves_early", "exits", "not_there"):
        tests.append(f"test/test_{bad}.py::TestX::test_x")
    tests += ["test/deep/test_trouble.py::TestTwin::test_twin", "test/test_trouble.py::TestTrouble::test_gone"]
    tree = a_tree(tmp / "tree", files)
    lines, last = run(tmp, tree, a_shard(tests, configs=[{"name": "little.yaml", "text": CONFIG}]))
    by_variant = {line["variant"]: line for line in lines}
    assert len(by_variant) == len(lines), "a variant was reported twice"
    return by_variant, last["report"]


def test_crash_hang_exit_and_failure_are_one_outcome_each(trouble: Any) -> None:
    lines, _ = trouble
    assert lines["test_aborts_spyre"]["outcome"] == "crashed"
    assert "SIGABRT" in lines["test_aborts_spyre"]["message"]
    assert "about to abort" in lines["test_aborts_spyre"]["log_tail"]
    assert lines["test_hangs_spyre"]["outcome"] == "timed_out"
    assert lines["test_leaves_spyre"]["outcome"] == "crashed"
    assert "status 0" in lines["test_leaves_spyre"]["message"]
    failed = lines["test_fails_spyre"]
    assert failed["outcome"] == "failed"
    assert "Tensor-likes are not" in failed["message"]
    place = failed["message"].rpartition("(at ")[2]
    assert place, "a failure names its place"
    assert not place.startswith("/"), "and no machine's path: the same failure reads the same wherever it ran"
    assert "said before failing" in failed["log_tail"]
    assert lines["test_subtests_spyre"]["outcome"] == "failed"


def test_the_rest_of_the_shard_still_runs(trouble: Any) -> None:
    lines, _ = trouble
    assert lines["test_adds_spyre_float32"]["outcome"] == "passed"
    assert lines["test_host_only"]["outcome"] == "passed"
    assert lines["test_sees_no_secret_spyre"]["outcome"] == "passed", lines["test_sees_no_secret_spyre"]
    assert lines["test_twin"]["outcome"] == "passed"
    assert lines["test_skips_spyre"]["outcome"] == "self_skipped"
    assert lines["test_skips_spyre"]["reason"] == "not today"
    assert lines["test_cuda_only_spyre"]["outcome"] == "self_skipped"
    assert lines["test_upstream_expects_failure_spyre"]["outcome"] == "xfailed"


def test_modes_of_the_config(trouble: Any) -> None:
    lines, _ = trouble
    skipped = lines["test_by_config_spyre"]
    assert (skipped["outcome"], skipped["mode"]) == ("skipped", "skip")
    assert "the card hangs on it" in skipped["reason"]
    assert "issues/7" in skipped["reason"]
    assert lines["test_known_bad_spyre"]["outcome"] == "xfailed"
    assert lines["test_known_bad_spyre"]["reason"] == "rounding"
    assert lines["test_known_bad_passes_spyre"]["outcome"] == "xpassed"
    assert lines["test_known_bad_passes_spyre"]["mode"] == "xfail_strict"
    assert lines["test_known_bad_skips_spyre"]["outcome"] == "self_skipped"
    assert lines["test_known_bad_skips_spyre"]["mode"] == "xfail"


def test_kernels_are_counted(trouble: Any) -> None:
    lines, report = trouble
    assert lines["test_adds_spyre_float32"]["kernels"] > 0
    assert lines["test_adds_spyre_float32"]["modelled_us"] > 0
    counted = lines["test_adds_spyre_float32"]["meter"]
    assert counted["sticks"] * 128 == counted["bytes_read"] + counted["bytes_written"] > 0
    assert lines["test_never_engages_spyre"]["kernels"] == 0
    assert lines["test_host_only"]["kernels"] == 0
    assert report["meter"]["kernels"] == sum(line["kernels"] or 0 for line in lines.values())


def test_ops_and_dtypes_are_what_device_and_config_have(trouble: Any) -> None:
    lines, report = trouble
    made = {name for name in lines if name.startswith("test_op_")}
    assert {"test_op_add_spyre_float32", "test_op_add_spyre_int64", "test_op_softmax_spyre_float32"} <= made
    assert not [name for name in made if "lgamma" in name]
    assert "test_adds_spyre_float64" not in lines
    assert [e["test"] for e in report["emptied"]] == ["test/test_trouble.py::TestTrouble::test_no_op_left"]
    assert "ops" in report["emptied"][0]["reason"]


def test_a_file_that_cannot_be_imported_costs_that_file(trouble: Any) -> None:
    _, report = trouble
    errors = {Path(e["file"]).stem: e["message"] for e in report["errors"]}
    assert "nothing_of_this_name" in errors["test_broken_import"]
    assert "utf-8" in errors["test_no_utf8"].lower()
    assert "SyntaxError" in errors["test_no_parse"]
    assert "took more than 6 s" in errors["test_loops"]
    assert "status 7" in errors["test_leaves_early"]
    assert "test_exits" in errors
    assert "not in the tree" in errors["test_not_there"]
    assert report["unmatched"] == ["test/test_trouble.py::TestTrouble::test_gone"]


def test_a_forged_result_is_not_taken(trouble: Any) -> None:
    lines, _ = trouble
    assert "test_forged_spyre" not in lines
    forger = lines["test_forges_spyre"]
    # what it wrote into the pipe breaks the protocol: it is not believed in anything
    assert forger["outcome"] == "error"
    assert "protocol" in forger["message"]


def test_only_the_asked_for_variants_run_and_none_twice(tmp_path: Path) -> None:
    tree = a_tree(tmp_path / "tree", {"test/test_trouble.py": TROUBLE})
    key = "test/test_trouble.py::TestTrouble::"
    shard = a_shard(
        [f"{key}test_op", f"{key}test_adds"],
        variants=[f"{key}test_op_add_spyre_float32", f"{key}test_adds_spyre_float32"],
    )
    lines, last = run(tmp_path, tree, shard, done=[f"{key}test_adds_spyre_float32"])
    assert [line["variant"] for line in lines] == ["test_op_add_spyre_float32"]
    assert last["report"]["unmatched"] == []


LOGS = """
import logging
import pytest
from torch.testing._internal.common_utils import TestCase


class TestLogs(TestCase):
    {fixture}

    def test_logs(self):
        logging.getLogger("torch").warning("said")
        {check}
"""
ASKS = """@pytest.fixture(autouse=True)
    def logs(self, caplog):
        self.caplog = caplog"""


def test_what_is_logged_is_collected_for_a_file_that_asks_for_it(tmp_path: Path) -> None:
    asks = LOGS.format(fixture=ASKS, check='assert "said" in self.caplog.text')
    reads = LOGS.format(fixture="", check="with self.assertLogs('torch'): logging.getLogger('torch').error('x')")
    tree = a_tree(tmp_path / "tree", {"test/test_asks.py": asks, "test/test_reads.py": reads})
    lines, _ = run(tmp_path, tree, a_shard([f"test/test_{name}.py::TestLogs::test_logs" for name in ("asks", "reads")]))
    assert [line["outcome"] for line in lines] == ["passed", "passed"], lines


def test_a_test_is_limited_to_the_ops_that_the_change_reaches(tmp_path: Path) -> None:
    tree = a_tree(tmp_path / "tree", {"test/test_trouble.py": TROUBLE})
    key = "test/test_trouble.py::TestTrouble::"
    # a test that draws from no list has no op: a limit does not empty it
    limits = {f"{key}test_op": ["exp", "_refs.exp"], f"{key}test_adds": ["exp"]}
    lines, last = run(tmp_path, tree, a_shard([f"{key}test_op", f"{key}test_adds"], ops=limits))
    assert sorted(line["variant"] for line in lines) == [
        "test_adds_spyre_float32",
        "test_op_exp_spyre_float32",
        "test_op_exp_spyre_int64",
    ]
    assert last["report"]["emptied"] == []

    lines, last = run(tmp_path, tree, a_shard([f"{key}test_op"], ops={f"{key}test_op": ["logit"]}))
    assert lines == []
    (emptied,) = last["report"]["emptied"]
    assert emptied["test"] == f"{key}test_op"
    assert "logit" in emptied["reason"]
    assert last["report"]["unmatched"] == []


OVERLAID = """
import torch
import torch._refs
from torch.testing._internal.common_utils import TestCase
from torch.testing._internal.common_device_type import instantiate_device_type_tests


class TestRefs(TestCase):
    def test_sees_the_change(self, device):
        self.assertEqual(torch._refs.MARK_OF_THE_CHANGE, 42)
        self.assertEqual((torch.ones(2, device=device) + 1).cpu(), torch.full((2,), 2.0))

    def test_new_file(self, device):
        from torch._brand_new import VALUE
        self.assertEqual(VALUE, 1)


instantiate_device_type_tests(TestRefs, globals())
"""


def test_the_overlay_runs_the_changed_torch_file(tmp_path: Path) -> None:
    import importlib.util

    installed = Path(importlib.util.find_spec("torch").origin).parent / "_refs" / "__init__.py"  # type: ignore[union-attr, arg-type]
    before = installed.read_bytes()
    tree = a_tree(
        tmp_path / "tree",
        {
            "test/test_refs.py": OVERLAID,
            "torch/_refs/__init__.py": before + b"\nMARK_OF_THE_CHANGE = 42\n",
            "torch/_brand_new.py": "VALUE = 1\n",
            ".base/torch/_refs/__init__.py": before,
        },
    )
    files = ["torch/_refs/__init__.py", "torch/_brand_new.py"]
    tests = methods_of(OVERLAID, "test/test_refs.py")
    shard = a_shard(tests, runtime={"kind": "overlay", "torch": "2.13.0", "files": files})
    lines, _ = run(tmp_path, tree, shard)
    assert {line["variant"]: line["outcome"] for line in lines} == {
        "test_sees_the_change_spyre": "passed",
        "test_new_file_spyre": "passed",
    }
    assert installed.read_bytes() == before

    a_tree(tree, {".base/torch/_refs/__init__.py": "x = 1\n" * 9000})
    lines, last = run(tmp_path, tree, shard)
    # torch as installed: the tests of the change fail on it, and the report says what was left out
    assert {line["outcome"] for line in lines} == {"failed"}
    refused = {entry["file"]: entry["message"] for entry in last["report"]["refused"]}
    assert "share only" in refused["torch/_refs/__init__.py"]
    assert "because torch/_refs/__init__.py cannot be" in refused["torch/_brand_new.py"]


def test_a_config_error_names_its_place(tmp_path: Path) -> None:
    tree = a_tree(tmp_path / "tree", {"test/test_trouble.py": TROUBLE})
    bad = "test_suite_config:\n  files:\n    - path: x\n      unlisted_test_mode: maybe\n"
    _, last = run(tmp_path, tree, a_shard([], configs=[{"name": "bad.yaml", "text": bad}]), status=3)
    assert "bad.yaml:4:" in last["failed"]
