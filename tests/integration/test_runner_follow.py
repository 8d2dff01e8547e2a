"""The runner follows what tests run, where its shard asks for it: of what passed, and no lies."""

from __future__ import annotations

from pathlib import Path

import pytest
from runner_cli import run_files

from selector.discover.traced import Trace
from selector.model import TestId

pytestmark = pytest.mark.torch
HEAD = """
import torch
from torch.testing._internal.common_utils import TestCase
from torch.testing._internal.common_device_type import instantiate_device_type_tests, ops
from torch.testing._internal.common_methods_invocations import op_db
"""
FOLLOWED = (
    HEAD
    + """
class TestFollowed(TestCase):
    @ops([op for op in op_db if op.name in ("add", "mul")], allowed_dtypes=(torch.float32, torch.int64))
    def test_drawn(self, device, dtype, op):
        sample = next(iter(op.sample_inputs(device, dtype)))
        op(sample.input, *sample.args, **sample.kwargs)

    def test_norm(self, device):
        torch.nn.functional.layer_norm(torch.ones(4, 4, device=device), (4,))

    def test_fails(self, device):
        torch.nn.functional.softmax(torch.ones(4, device=device), 0)
        self.assertEqual(1, 2)

instantiate_device_type_tests(TestFollowed, globals())
"""
)
HOSTILE = (
    HEAD
    + """
import json, os

LIES = []

class TestHostile(TestCase):
    def lie(self, number):
        line = json.dumps(LIES[number]).encode() + b"\\n"
        for fd in range(3, 64):
            try:
                os.write(fd, line)
            except OSError:
                pass

    def test_next(self, device):
        torch.ones(2, device=device) + 1

"""
)
LIES: list[dict[str, object]] = [
    {"ran": {"/etc/passwd": ["f"]}},
    {"ran": {"torch/../x.py": ["f"]}},
    {"ran": {"torch/x.py": ["f" * 400]}},
    {"ran": {"torch/x.py": [1]}},
    {"ran": ["f"]},
    {"ops": {"mul": 1}},
    {"ran": {"torch/x.py": ["f"]}, "end": 1},
]


def hostile(lies: list[dict[str, object]]) -> str:
    tests = "".join(f"    def test_lies_{n}(self, device): self.lie({n})\n" for n in range(len(lies)))
    made = "\ninstantiate_device_type_tests(TestHostile, globals())\n"
    return HOSTILE.replace("LIES = []", f"LIES = {lies!r}") + tests + made


def test_functions_and_operators_by_test_and_op_entry(tmp_path: Path) -> None:
    path = tmp_path / "trace.gz"
    results, last = run_files(tmp_path, {"test_followed.py": FOLLOWED}, beside={"trace": str(path)})
    assert {v: r["outcome"] for v, r in results.items()} == {
        **{f"test_drawn_{op}_spyre_{dtype}": "passed" for op in ("add", "mul") for dtype in ("float32", "int64")},
        "test_norm_spyre": "passed",
        "test_fails_spyre": "failed",
    }
    assert last["report"]["meter"]["kernels"] > 0
    found = Trace.from_bytes(path.read_bytes())
    drawn, norm, fails = (
        TestId("test/test_followed.py", "TestFollowed", f"test_{n}") for n in ("drawn", "norm", "fails")
    )
    units = {(unit.test, unit.op): n for n, unit in enumerate(found.units)}
    assert set(units) == {(drawn, "add"), (drawn, "mul"), (norm, None)}, "what fails may have ended anywhere"
    assert set(found.tests) == {drawn, norm, fails}, "and is known to have been tried"
    assert found.functions["torch/nn/functional.py"]["layer_norm"] == (units[norm, None],)
    assert "softmax" not in found.functions["torch/nn/functional.py"]
    assert set(found.ops["mul"]) >= {units[drawn, "mul"]}
    assert units[drawn, "mul"] not in found.ops["add"]
    assert found.torch == "2.13.0"
    assert all(unit.seconds > 0 for unit in found.units)


def test_nothing_is_followed_where_nobody_asked(tmp_path: Path) -> None:
    results, _ = run_files(tmp_path, {"test_hostile.py": hostile([{"ran": {"torch/x.py": ["f"]}}])})
    assert results["test_lies_0_spyre"]["outcome"] == "error"
    assert "broke the runner's protocol" in results["test_lies_0_spyre"]["message"]
    assert results["test_next_spyre"]["outcome"] == "passed"


def test_a_test_that_tells_what_cannot_be_spoils_itself_alone(tmp_path: Path) -> None:
    path = tmp_path / "trace.gz"
    results, _ = run_files(tmp_path, {"test_hostile.py": hostile(LIES)}, beside={"trace": str(path)})
    for n, lie in enumerate(LIES):
        told = results[f"test_lies_{n}_spyre"]
        assert told["outcome"] == "error", lie
        assert "broke the runner's protocol" in told["message"], lie
    assert results["test_next_spyre"]["outcome"] == "passed"
    (unit,) = Trace.from_bytes(path.read_bytes()).units
    assert unit.test.method == "test_next"
