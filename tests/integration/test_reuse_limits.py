"""What torch's own test class can limit (2.13: ``op_allowlist``, ``test_exclusions``), beside what configs say."""

from __future__ import annotations

import pytest
import reuse_process
from reuse_process import Ran

pytestmark = pytest.mark.torch

SOURCE = """
import unittest

import torch
from torch.testing._internal import common_device_type as upstream
from torch.testing._internal.common_utils import TestCase
from torch.testing._internal.common_device_type import dtypes, OpDTypes, instantiate_device_type_tests, ops
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import DecorateInfo

for base in upstream.device_type_test_bases:
    base.set_test_configs(
        op_allowlist=["add", "linalg.norm"],
        op_overrides={"add": [DecorateInfo(unittest.skip("by the override"), "TestOverridden")]},
        test_exclusions={
            "TestSome": ["test_excluded"],
            "TestAll": "*",
            "TestByDtype": {"test_whole": "*", "test_some": {"dtypes": [torch.float64]}},
        },
    )
SOME = [op for op in op_db if op.full_name in ("add", "mul", "exp", "linalg.norm")]
OTHERS = [op for op in op_db if op.full_name in ("mul", "exp")]


class TestSome(TestCase):
    @ops(SOME, allowed_dtypes=(torch.float32,))
    def test_ops(self, device, dtype, op):
        pass

    @ops(OTHERS, allowed_dtypes=(torch.float32,))
    def test_emptied(self, device, dtype, op):
        pass

    def test_excluded(self, device):
        raise AssertionError("ran")

    def test_kept(self, device):
        pass


class TestAll(TestCase):
    def test_a(self, device):
        raise AssertionError("ran")


class TestByDtype(TestCase):
    def test_whole(self, device):
        raise AssertionError("ran")

    @dtypes(torch.float32, torch.float64)
    def test_some(self, device, dtype):
        self.assertEqual(dtype, torch.float32)


class TestOverridden(TestCase):
    @ops(SOME, allowed_dtypes=(torch.float32,))
    def test_over(self, device, dtype, op):
        pass

    @ops(SOME, dtypes=OpDTypes.none)
    def test_no_dtypes(self, device, op):
        pass

    @ops(SOME, dtypes=OpDTypes.unsupported, allowed_dtypes=(torch.bool, torch.int64))
    def test_unsupported(self, device, dtype, op):
        pass


for cls in (TestSome, TestAll, TestByDtype, TestOverridden):
    instantiate_device_type_tests(cls, globals())
"""
CONFIG = """
test_suite_config:
  files:
    - path: ${TORCH_ROOT}/test/test_limits.py
      unlisted_test_mode: mandatory_success
      tests:
        - names: [TestSome::test_ops]
          edits: {ops: {exclude: [{name: linalg.norm, reason: not by the config}]}}
        - names: ["TestOverridden::.*"]
          edits: {dtypes: {include: [{name: int64}]}}
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return reuse_process.run(tmp_path_factory.mktemp("limits"), {"test/test_limits.py": SOURCE}, {"x.yaml": CONFIG})


def test_the_allowlist_narrows_and_the_config_narrows_further(ran: Ran) -> None:
    assert set(ran.variants("TestSome::test_ops")) == {"test_ops_add_spyre_float32"}
    assert ran.outcome("test_ops_add_spyre_float32") == "passed"


def test_a_list_that_the_allowlist_empties_costs_the_test_alone(ran: Ran) -> None:
    assert ran.variants("TestSome::test_emptied") == {}
    assert any(test.endswith("TestSome::test_emptied") for test in ran.emptied)
    assert ran.outcome("test_kept_spyre") == "passed"


@pytest.mark.parametrize(
    "variant", ["test_excluded_spyre", "test_a_spyre", "test_whole_spyre", "test_some_spyre_float64"]
)
def test_what_is_excluded_is_reported_as_skipped(ran: Ran, variant: str) -> None:
    outcome, said = ran.said(variant)
    assert outcome == "skipped"
    assert "test_exclusions of the device's test class" in said


def test_the_dtypes_that_are_not_excluded_run(ran: Ran) -> None:
    assert ran.outcome("test_some_spyre_float32") == "passed"


def test_overrides_of_an_op_hold_where_the_config_adds_dtypes(ran: Ran) -> None:
    ops = ("add", "linalg_norm")
    assert set(ran.variants("TestOverridden::test_over")) == {
        f"test_over_{op}_spyre_{dtype}" for op in ops for dtype in ("float32", "int64")
    }
    assert set(ran.variants("TestOverridden::test_no_dtypes")) == {f"test_no_dtypes_{op}_spyre" for op in ops}
    assert set(ran.variants("TestOverridden::test_unsupported")) == {
        f"test_unsupported_linalg_norm_spyre_{dtype}" for dtype in ("bool", "int64")
    }
    assert ran.said("test_over_add_spyre_float32")[0] == "skipped"
    assert "by the override" in ran.said("test_over_add_spyre_int64")[1]
    assert ran.said("test_over_linalg_norm_spyre_int64") == ["passed", ""]
