"""What only a running torch shows: dtype words in names, emptied lists, shared OpInfos, the CPU beside the device."""

from __future__ import annotations

import pytest
import reuse_process
from reuse_process import Ran

pytestmark = pytest.mark.torch

SOURCE = """
import torch
from torch.testing._internal.common_utils import TestCase
from torch.testing._internal.common_device_type import dtypes, instantiate_device_type_tests, ops
from torch.testing._internal.common_methods_invocations import op_db

PICKED = [op for op in op_db if op.name in ("lgamma", "digamma")]
BEFORE = {id(op): (set(op.dtypes), len(op.decorators)) for op in op_db}


class TestWords(TestCase):
    @dtypes(torch.float32, torch.float64)
    def test_int8_woq_mm(self, device, dtype):
        pass

    def test_bfloat16_neg_abs(self, device):
        pass

    @ops(PICKED, allowed_dtypes=(torch.float32,))
    def test_emptied(self, device, dtype, op):
        pass

    def test_after_the_emptied(self, device):
        for op in op_db:
            self.assertEqual(BEFORE[id(op)], (set(op.dtypes), len(op.decorators)))

    def test_device(self, device):
        self.assertIn(torch.device(device).type, ("cpu", "spyre"))


instantiate_device_type_tests(TestWords, globals())
"""
CONFIG = """
test_suite_config:
  files:
    - path: ${TORCH_ROOT}/test/test_words.py
      unlisted_test_mode: mandatory_success
  global:
    devices: [spyre, cpu, cuda]
    supported_dtypes: [{name: float32}]
    supported_ops: [add]
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return reuse_process.run(tmp_path_factory.mktemp("words"), {"test/test_words.py": SOURCE}, {"x.yaml": CONFIG})


def test_w2_dtype_words_in_method_names_are_words(ran: Ran) -> None:
    made = set(ran.variants("TestWords::test_int8_woq_mm"))
    assert made == {"test_int8_woq_mm_spyre_float32", "test_int8_woq_mm_cpu_float32", "test_int8_woq_mm_cuda"}
    assert "test_bfloat16_neg_abs_spyre" in ran.variants("TestWords::test_bfloat16_neg_abs")


def test_an_emptied_list_of_ops_costs_the_test_alone(ran: Ran) -> None:
    assert set(ran.variants("TestWords::test_emptied")) == {"test_emptied_cuda"}  # of the device that is not here
    (reason,) = [why for test, why in ran.emptied.items() if test.endswith("::test_emptied")]
    assert "ops is supported by the device and its configs" in reason


def test_w6_shared_objects_are_as_they_were(ran: Ran) -> None:
    assert ran.outcome("test_after_the_emptied_spyre") == "passed"


def test_the_cpu_is_generated_for_beside_the_device(ran: Ran) -> None:
    assert set(ran.variants("TestWords::test_device")) == {"test_device_spyre", "test_device_cpu", "test_device_cuda"}
    assert ran.outcome("test_device_cpu") == ran.outcome("test_device_spyre") == "passed"


def test_a_device_that_is_not_here_is_skipped_with_a_word(ran: Ran) -> None:
    outcome, said = ran.said("test_device_cuda")
    assert outcome == "skipped"
    assert "there is no cuda on this machine" in said
    record = ran.variants("TestWords::test_device")["test_device_cuda"]
    assert (record["mode"], record["test"]) == ("skip", "test/test_words.py::TestWords::test_device")
