"""The configs applied to upstream-style files: what is generated, how it compares, and for whom."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

pytestmark = pytest.mark.torch

SOURCE = """
import torch
from torch.testing._internal.common_utils import TestCase, parametrize, reparametrize
from torch.testing._internal.common_device_type import instantiate_device_type_tests, dtypes, ops, OpDTypes
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db, modules

PICKED = [op for op in op_db if op.full_name in ("div.floor_rounding", "div.trunc_rounding", "exp", "lgamma")]
BEFORE = {id(op): (op.full_name, set(op.dtypes), len(op.decorators)) for op in op_db}
shared = ops(PICKED, allowed_dtypes=(torch.float32, torch.int64))


class TestReuse(TestCase):
    @shared
    def test_listed(self, device, dtype, op):
        pass

    @shared
    def test_same_decorator(self, device, dtype, op):
        pass

    @ops(PICKED, dtypes=OpDTypes.any_one)
    def test_any_one(self, device, dtype, op):
        pass

    @parametrize("flag", [True, False])
    @ops(PICKED, allowed_dtypes=(torch.float32,))
    def test_product(self, device, dtype, op, flag):
        pass

    @parametrize("dtype", [torch.float32, torch.float64])
    def test_dtype_by_parametrize(self, device, dtype):
        pass

    @dtypes(torch.float32, torch.float64)
    def test_plain_dtypes(self, device, dtype):
        pass

    @dtypes((torch.float32, torch.int64), (torch.float32, torch.float64))
    def test_pairs_of_dtypes(self, device, dtypes):
        pass

    @modules([m for m in module_db if m.name in ("nn.Linear", "nn.ReLU")])
    def test_module(self, device, dtype, module_info, training):
        pass

    @modules([m for m in module_db if m.name == "nn.ReLU"], allowed_dtypes=(torch.float32,))
    def test_packaged(self, device, dtype, module_info, training):
        for given in module_info.module_inputs_func(
            module_info, device=device, dtype=dtype, requires_grad=False, training=training
        ):
            module = module_info.module_cls(*given.constructor_input.args, **given.constructor_input.kwargs)
            module(*given.forward_input.args, **given.forward_input.kwargs)

    @dtypes(torch.float32)
    def test_wide(self, device, dtype):
        self.assertEqual(torch.tensor(1.0, device=device), torch.tensor(1.05, device=device))

    @dtypes(torch.float32)
    def test_narrow(self, device, dtype):
        self.assertEqual(torch.tensor(1.0, device=device), torch.tensor(1.05, device=device))

    def test_without_gradients(self, device):
        self.assertFalse(torch.is_grad_enabled())

    def test_with_gradients(self, device):
        self.assertTrue(torch.is_grad_enabled())

    def assertHost(self, *tensors):
        self.assertTrue(all(t.device.type == "cpu" for t in tensors))

    def test_moved(self, device):
        self.assertHost(torch.ones(1, device=device))

    def test_not_moved(self, device):
        self.assertHost(torch.ones(1, device=device))

    def test_shared_objects_are_as_they_were(self, device):
        for op in op_db:
            self.assertTrue(BEFORE[id(op)] == (op.full_name, set(op.dtypes), len(op.decorators)), op.full_name)


class TestOther(TestCase):
    def test_moved(self, device):
        self.assertTrue(torch.ones(1, device=device).device.type == "spyre")


instantiate_device_type_tests(TestReuse, globals())
instantiate_device_type_tests(TestOther, globals())
"""

CAPABILITY = """
capability:
  name: little
  device: spyre
  dtypes: [float32, float16, int64, bool]
"""

CONFIG = """
test_suite_config:
  files:
    - path: ${TORCH_ROOT}/test/test_reuse.py
      unlisted_test_mode: mandatory_success
      tests:
        - names: TestReuse::test_listed
          edits:
            ops:
              include: [{name: neg}]
              exclude: [{name: div.floor_rounding}]
            dtypes:
              include: [{name: float16}]
              exclude: [{name: int64}]
        - names: TestReuse::test_plain_dtypes
          edits:
            dtypes:
              include: [{name: float16}]
        - names: TestReuse::test_module
          edits:
            modules:
              exclude: [{name: nn.ReLU}]
        - names: TestReuse::test_packaged
          edits:
            modules:
              include:
                - name: stub
                  module_path: torch.ao.quantization.QuantStub
                  forward_inputs: {args: [{tensor: {shape: [2]}}]}
                - name: not_allowed
                  module_path: numpy.Linear
                  forward_inputs: {args: [{tensor: {shape: [2]}}]}
        - names: TestReuse::test_wide
          edits:
            dtypes:
              include:
                - name: float32
                  precision: {atol: 0.1, rtol: 0.1}
        - names: TestReuse::test_without_gradients
          no_grad: true
        - names: TestReuse::test_moved
          edits:
            functions:
              cpu_move: [{name: assertHost}]
  global:
    supported_ops: [div, exp]
"""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    tmp = tmp_path_factory.mktemp("reuse")
    (tmp / "tree/test").mkdir(parents=True)
    (tmp / "tree/test/test_reuse.py").write_text(SOURCE)
    tests, cls = [], ""
    for line in SOURCE.splitlines():
        if line.startswith("class "):
            cls = line.split()[1].split("(")[0]
        elif line.strip().startswith("def test_"):
            tests.append(f"test/test_reuse.py::{cls}::{line.split()[1].split('(')[0]}")
    spec: dict[str, Any] = {
        "device": "spyre",
        "runtime": {"kind": "tests-only", "torch": "2.13.0"},
        "capability": CAPABILITY,
        "configs": [{"name": "reuse.yaml", "text": CONFIG}],
        "tests": tests,
    }
    (tmp / "spec.json").write_text(json.dumps({"shard": spec, "module_packages": ["torch"]}))
    command = [sys.executable, "-m", "relay.worker.runner", "--spec", "spec.json", "--tree", "tree", "--out", "out"]
    subprocess.run(command, cwd=tmp, check=True, timeout=240)
    *lines, last = [json.loads(line) for line in (tmp / "out").read_text().splitlines()]
    assert last["report"]["errors"] == []
    return {f"{line['test'].split('::')[1]}.{line['variant']}": line["outcome"] for line in lines}


def variants(outcomes: dict[str, str], test: str) -> set[str]:
    prefix = f"TestReuse.{test}_"
    return {name.removeprefix(prefix) for name in outcomes if name.startswith(prefix)}


def test_modules_of_packages_that_the_workers_owner_allows_run_in_its_sandbox(outcomes: dict[str, str]) -> None:
    found = {v: outcomes[f"TestReuse.test_packaged_{v}"] for v in variants(outcomes, "test_packaged")}
    assert {v: outcome for v, outcome in found.items() if "nn_ReLU" not in v} == {
        "stub_spyre_float32": "passed",
        "not_allowed_spyre_float32": "self_skipped",
    }


def test_ops_and_dtypes_of_a_listed_test(outcomes: dict[str, str]) -> None:
    assert variants(outcomes, "test_listed") == {
        "div_trunc_rounding_spyre_float32",
        "div_trunc_rounding_spyre_float16",
        "exp_spyre_float32",
        "exp_spyre_float16",
        "neg_spyre_float32",
        "neg_spyre_float16",
    }


def test_another_test_under_the_same_decorator_object_is_its_own(outcomes: dict[str, str]) -> None:
    assert variants(outcomes, "test_same_decorator") == {
        f"{op}_spyre_{dtype}"
        for op in ("div_trunc_rounding", "div_floor_rounding", "exp")
        for dtype in ("float32", "int64")
    }
    assert outcomes["TestReuse.test_shared_objects_are_as_they_were_spyre"] == "passed"


def test_one_dtype_is_one_that_the_device_has(outcomes: dict[str, str]) -> None:
    assert variants(outcomes, "test_any_one") == {
        f"{op}_spyre_float32" for op in ("div_trunc_rounding", "div_floor_rounding", "exp")
    }


def test_products_and_dtypes_by_other_ways(outcomes: dict[str, str]) -> None:
    made = variants(outcomes, "test_product")
    assert len(made) == 6
    assert all(name.endswith("_spyre_float32") and "lgamma" not in name for name in made)
    assert len(variants(outcomes, "test_dtype_by_parametrize")) == 1
    assert variants(outcomes, "test_plain_dtypes") == {"spyre_float32", "spyre_float16"}
    assert variants(outcomes, "test_pairs_of_dtypes") == {"spyre_float32_int64"}


def test_modules(outcomes: dict[str, str]) -> None:
    made = variants(outcomes, "test_module")
    assert made
    assert all(name.startswith("nn_Linear") and name.rpartition("_")[2] in ("float32", "float16") for name in made)


def test_tolerance_gradients_and_moves_are_for_the_entrys_own_tests(outcomes: dict[str, str]) -> None:
    assert outcomes["TestReuse.test_wide_spyre_float32"] == "passed"
    assert outcomes["TestReuse.test_narrow_spyre_float32"] == "failed"
    assert outcomes["TestReuse.test_without_gradients_spyre"] == "passed"
    assert outcomes["TestReuse.test_with_gradients_spyre"] == "passed"
    assert outcomes["TestReuse.test_moved_spyre"] == "passed"
    assert outcomes["TestReuse.test_not_moved_spyre"] == "failed"
    assert outcomes["TestOther.test_moved_spyre"] == "passed"
