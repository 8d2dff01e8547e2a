"""What torch's own test class can limit (2.13: ``op_allowlist``, ``test_exclusions``; 2.14: dtypes), beside configs.

On torch 2.14 (``python tests/torch_release.py 2.14.1 --tests tests/integration/test_reuse_limits.py``) upstream's own
class reads the same exclusions, and what it alone generates is compared with what runs here.
"""

from __future__ import annotations

import pytest
import reuse_process
from reuse_process import Ran

pytestmark = pytest.mark.torch

KEPT = {"test_some_spyre_float32", "test_pairs_spyre_float32_int64"}
for dtype in ("float32", "float64"):
    KEPT |= {f"test_of_ops_add_spyre_{dtype}", f"test_parameter_{dtype}_spyre_{dtype}"}
SOURCE = """
import unittest

import torch
from torch.testing._internal import common_device_type as upstream
from torch.testing._internal.common_utils import TestCase, parametrize
from torch.testing._internal.common_device_type import dtypes, OpDTypes, instantiate_device_type_tests, ops
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import DecorateInfo

EXCLUSIONS = {
    "TestSome": ["test_excluded"],
    "TestAll": "*",
    "TestByDtype": {
        "test_whole": "*",
        "test_some": {"dtypes": [torch.float64]},
        "test_pairs": {"dtypes": [torch.float64]},
        "test_of_ops": {"dtypes": [torch.float64]},
        "test_parameter": {"dtypes": [torch.float64]},
    },
}
for base in upstream.device_type_test_bases:
    base.set_test_configs(
        op_allowlist=["add", "linalg.norm"],
        op_overrides={"add": [DecorateInfo(unittest.skip("by the override"), "TestOverridden")]},
        test_exclusions=EXCLUSIONS,
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

    @dtypes((torch.float32, torch.float64), (torch.float32, torch.int64))
    def test_pairs(self, device, dtypes):
        self.assertNotIn(torch.float64, dtypes)

    @ops(SOME[:1], allowed_dtypes=(torch.float32, torch.float64))
    def test_of_ops(self, device, dtype, op):
        pass

    @parametrize("dtype", [torch.float32, torch.float64])
    def test_parameter(self, device, dtype):
        pass


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


def upstreams_own(cls):
    # The tests that upstream's own base, without the relay's, makes of a class under the same exclusions.

    class Own(upstream.PrivateUse1TestBase):
        test_exclusions = EXCLUSIONS

    copied = {name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__")}
    scope = {cls.__name__: type(cls.__name__, (TestCase,), copied)}
    before = list(upstream.device_type_test_bases)
    upstream.device_type_test_bases[:] = [Own]
    try:
        upstream.instantiate_device_type_tests._relay_original(scope[cls.__name__], scope)
    finally:
        upstream.device_type_test_bases[:] = before
    return {name for made in scope.values() for name in vars(made) if name.startswith("test_") and "spyre" in name}


MADE = {cls.__name__: upstreams_own(cls) for cls in (TestSome, TestAll, TestByDtype)}
KNOWS_DTYPES = hasattr(upstream.DeviceTypeTestBase, "_should_exclude")  # torch 2.14


class TestUpstream(TestCase):
    def test_agrees(self):
        self.assertNotIn("test_excluded_spyre", MADE["TestSome"])
        self.assertIn("test_kept_spyre", MADE["TestSome"])
        self.assertEqual(MADE["TestAll"], set())
        # 2.13 takes every test that a mapping names as excluded
        self.assertEqual(MADE["TestByDtype"], KEPT if KNOWS_DTYPES else set())


for cls in (TestSome, TestAll, TestByDtype, TestOverridden):
    instantiate_device_type_tests(cls, globals())
"""
SOURCE = f"KEPT = {KEPT!r}\n{SOURCE}"
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


@pytest.fixture(scope="module", params=["1", "2"])
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    files = {"test/test_limits.py": SOURCE}
    return reuse_process.run(tmp_path_factory.mktemp("limits"), files, {"x.yaml": CONFIG}, hashes=request.param)


def test_the_allowlist_narrows_and_the_config_narrows_further(ran: Ran) -> None:
    assert set(ran.variants("TestSome::test_ops")) == {"test_ops_add_spyre_float32"}
    assert ran.outcome("test_ops_add_spyre_float32") == "passed"


def test_a_list_that_the_allowlist_empties_costs_the_test_alone(ran: Ran) -> None:
    assert ran.variants("TestSome::test_emptied") == {}
    assert any(test.endswith("TestSome::test_emptied") for test in ran.emptied)
    assert ran.outcome("test_kept_spyre") == "passed"


@pytest.mark.parametrize(
    "variant",
    [
        "test_excluded_spyre",
        "test_a_spyre",
        "test_whole_spyre",
        "test_some_spyre_float64",
        "test_pairs_spyre_float32_float64",
    ],
)
def test_what_is_excluded_is_reported_as_skipped(ran: Ran, variant: str) -> None:
    outcome, said = ran.said(variant)
    assert outcome == "skipped"
    assert "test_exclusions of the device's test class" in said


def test_the_dtypes_that_are_not_excluded_run(ran: Ran) -> None:
    assert ran.outcome("test_some_spyre_float32") == "passed"
    assert ran.outcome("test_pairs_spyre_float32_int64") == "passed"


def test_what_runs_is_what_upstreams_own_class_makes(ran: Ran) -> None:
    assert ran.said("test_agrees")[0] == "passed", ran.said("test_agrees")[1]
    names = [name for test in ("whole", "some", "pairs", "of_ops", "parameter")
             for name in ran.variants(f"TestByDtype::test_{test}")]  # fmt: skip
    assert {name for name in names if ran.outcome(name) == "passed"} == KEPT


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
