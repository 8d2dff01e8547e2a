"""Every shape in which upstream writes tests, and the limits it puts on them, under one config."""

from __future__ import annotations

import pytest
import reuse_process
from reuse_process import Ran

pytestmark = pytest.mark.torch

SHARED = """
import torch
from torch.testing._internal.common_utils import TestCase

class TestFarAway(TestCase):
    def test_inherited_from_another_file(self):
        pass

    def test_far_skipped(self):
        raise AssertionError("ran")
"""

SOURCE = """
import builtins
import torch
from shared_base import TestFarAway
from torch.testing._internal.common_utils import (
    TestCase, instantiate_parametrized_tests, parametrize, slowTest)
from torch.testing._internal.common_device_type import (
    dtypes, instantiate_device_type_tests, onlyCPU, onlyCUDA, onlyOn, ops)
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db, modules

builtins._bodies = getattr(builtins, "_bodies", 0) + 1
ADD = [op for op in op_db if op.full_name in ("add", "exp")]


class TestGeneric(TestCase):
    @onlyCUDA
    def test_cuda_opened(self, device):
        self.assertEqual(torch.ones(1, device=device).device.type, "spyre")

    @onlyCUDA
    def test_cuda_closed(self, device):
        pass

    @onlyOn(["cuda", "xpu"])
    def test_either_opened(self, device):
        pass

    @onlyCPU
    def test_cpu_closed(self, device):
        pass

    def test_one_body(self, device):
        self.assertEqual(builtins._bodies, 1)

    def test_tagged(self, device):
        pass

    @slowTest
    def test_slow_left_out(self, device):
        pass

    @ops(ADD, allowed_dtypes=(torch.float32,))
    def test_selected_by_ops(self, device, dtype, op):
        pass

    def test_without_ops_left_out(self, device):
        raise AssertionError("ran")

    @modules([m for m in module_db if m.name == "nn.ReLU"], allowed_dtypes=(torch.float32,))
    def test_modules_added(self, device, dtype, module_info, training):
        pass


    @parametrize("n", [1, 2])
    @dtypes(torch.float32)
    def test_many(self, device, dtype, n):
        self.assertEqual(n, 1)


instantiate_device_type_tests(TestGeneric, globals())


class TestCudaOpened(TestCase):
    @dtypes(torch.float32, torch.float64)
    def test_a(self, device, dtype):
        self.assertEqual(torch.ones(1, device=device).device.type, "spyre")

    def test_not_opened(self, device):
        raise AssertionError("ran")


class TestCudaClosed(TestCase):
    def test_a(self, device):
        pass


class TestExcept(TestCase):
    def test_a(self, device):
        pass


instantiate_device_type_tests(TestCudaOpened, globals(), only_for=("cuda",))
instantiate_device_type_tests(TestCudaClosed, globals(), only_for="cuda")
instantiate_device_type_tests(TestExcept, globals(), except_for=("cpu",))


try:  # torch 2.14 and newer
    from torch.testing._internal.common_utils import HardwareClassification
    CUDA, ACCELERATOR = HardwareClassification.CUDA, HardwareClassification.ACCELERATOR
except ImportError:
    class CUDA:
        name = "CUDA"

    class ACCELERATOR:
        name = "ACCELERATOR"


class TestPlainClassified(TestCase):
    hw_classification = CUDA

    def test_a(self):
        raise AssertionError("ran")


class TestForAccelerators(TestCase):
    hw_classification = ACCELERATOR

    def test_accelerated(self, device):
        pass


instantiate_device_type_tests(TestForAccelerators, globals())


class TestClassified(TestCase):
    hw_classification = CUDA

    def test_a(self, device):
        raise AssertionError("ran")


instantiate_device_type_tests(TestClassified, globals())

for name in ("Red", "Blue"):
    made = type("TestLoop" + name, (TestCase,), {"test_colour": lambda self, device: None})
    made.__module__ = __name__
    globals()[made.__name__] = made
    instantiate_device_type_tests(made, globals())


def factory(name):
    class Made(TestCase):
        def test_here(self):
            raise AssertionError("ran " + name)

        class Helper:
            def test_not_a_test(self):
                pass

    Made.__name__ = Made.__qualname__ = name
    return Made


TestFactoryA = factory("TestFactoryA")
TestFactoryB = factory("TestFactoryB")


class TestParent(TestCase):
    def test_shared(self):
        pass


class TestChild(TestParent):
    def test_own(self):
        pass


class TestGrandChild(TestFarAway):
    pass


@instantiate_parametrized_tests
class TestParametrized(TestCase):
    @parametrize("n", [1, 2])
    def test_n(self, n):
        raise AssertionError(str(n))
"""

CONFIG = """
test_suite_config:
  files:
    - path: ${TORCH_ROOT}/test/test_shapes.py
      unlisted_test_mode: mandatory_success
      tests:
        - names: [TestGeneric::test_cuda_opened, TestGeneric::test_either_opened, TestCudaOpened::test_a]
          bypass_device_restrictions: [cuda]
        - names: [TestGeneric::test_tagged]
          tags: [ops__add, model__granite-3.3]
        - names: [TestGeneric::test_slow_left_out]
          selectors: {exclude: [{markers: [slow]}]}
        - names: [TestGeneric::test_selected_by_ops, TestGeneric::test_without_ops_left_out]
          selectors: {include: [{has_ops: true, ops_in_supported: true}]}
        - names: [TestGeneric::test_modules_added]
          edits: {modules: {include: [{name: torch.nn.Tanh}]}}
        - {names: [TestFactoryA::test_here], mode: skip, reason: this one only}
        - {names: [TestChild::test_shared], mode: skip, reason: the child's}
        - {names: [TestGrandChild::test_far_skipped], mode: skip, reason: from far away}
        - {names: [TestLoopBlue::test_colour], mode: xfail, reason: blue}
        - {names: [TestParametrized::test_n], mode: xfail, reason: raises}
        - {names: [TestParametrized::test_n_n_2], mode: skip, reason: the second alone}
        - {names: [TestGeneric::test_many_n_2], mode: xfail, reason: only one is one, tags: [second]}
  global: {supported_ops: [add]}
"""


@pytest.fixture(scope="module", params=["1", "2"])
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    files = {"test/test_shapes.py": SOURCE, "test/shared_base.py": SHARED}
    sheet = "capability: {name: little, device: spyre, dtypes: [float32]}"
    return reuse_process.run(tmp_path_factory.mktemp("shapes"), files, {"x.yaml": CONFIG}, sheet, hashes=request.param)


def test_device_decorators_are_opened_by_policy_alone(ran: Ran) -> None:
    assert ran.outcome("test_cuda_opened_spyre") == "passed"
    assert ran.outcome("test_either_opened_spyre") == "passed"
    for closed in ("test_cuda_closed_spyre", "test_cpu_closed_spyre"):
        assert ran.outcome(closed) == "skipped"
        assert "Only runs on" in ran.said(closed)[1]


def test_only_for_and_except_for(ran: Ran) -> None:
    assert set(ran.variants("TestCudaOpened::test_a")) == {"test_a_spyre_float32"}
    (closed,) = ran.variants("TestCudaOpened::test_not_opened").values()
    assert (closed["mode"], closed["reason"]) == ("skip", "upstream makes this class for cuda only")
    assert ran.variants("TestCudaClosed::test_a") == {}
    assert set(ran.variants("TestExcept::test_a")) == {"test_a_spyre"}


def test_a_class_classified_for_other_hardware_is_skipped_with_the_reason(ran: Ran) -> None:
    (record,) = ran.variants("TestClassified::test_a").values()
    assert (record["mode"], record["reason"]) == ("skip", "upstream classifies this class as CUDA")
    (plain,) = ran.variants("TestPlainClassified::test_a").values()
    assert (plain["mode"], plain["reason"]) == ("skip", "upstream classifies this class as CUDA")
    assert ran.outcome("test_accelerated_spyre") == "passed"


def test_tags_become_marks_where_they_can(ran: Ran) -> None:
    (record,) = ran.variants("TestGeneric::test_tagged").values()
    assert record["tags"] == ["ops__add", "model__granite-3.3"]
    assert ran.marks["test/test_shapes.py::TestGeneric::test_tagged_spyre"] == ["ops__add"]


def test_selectors_look_at_the_tests_objects(ran: Ran) -> None:
    (slow,) = ran.variants("TestGeneric::test_slow_left_out").values()
    assert slow["mode"] == "skip"
    assert "markers: slow" in slow["reason"]
    assert set(ran.variants("TestGeneric::test_selected_by_ops")) == {"test_selected_by_ops_add_spyre_float32"}
    (left_out,) = ran.variants("TestGeneric::test_without_ops_left_out").values()
    assert left_out["reason"] == "it has no @ops, which every selector of its entry asks for"


def test_modules_are_added_to_the_entrys_own_test(ran: Ran) -> None:
    made = {record["op"] for record in ran.variants("TestGeneric::test_modules_added").values()}
    assert made == {"nn.ReLU", "nn.Tanh"}


def test_classes_of_loops_and_factories_are_known_by_their_own_names(ran: Ran) -> None:
    assert ran.variants("TestLoopRed::test_colour")["test_colour_spyre"]["mode"] == "mandatory_success"
    assert ran.variants("TestLoopBlue::test_colour")["test_colour_spyre"]["mode"] == "xfail"
    assert ran.variants("TestFactoryA::test_here")["test_here"]["reason"] == "this one only"
    assert ran.variants("TestFactoryB::test_here")["test_here"]["mode"] == "mandatory_success"
    assert not [key for key in ran.records if "test_not_a_test" in key]


def test_an_inherited_test_is_the_inheriting_classes_own(ran: Ran) -> None:
    assert ran.variants("TestParent::test_shared")["test_shared"]["mode"] == "mandatory_success"
    assert ran.variants("TestChild::test_shared")["test_shared"]["mode"] == "skip"
    assert ran.variants("TestChild::test_own")["test_own"]["mode"] == "mandatory_success"
    far = ran.variants("TestGrandChild::test_far_skipped")["test_far_skipped"]
    assert (far["mode"], far["reason"]) == ("skip", "from far away")
    assert "test_inherited_from_another_file" in ran.variants("TestGrandChild::test_inherited_from_another_file")


def test_parametrized_plain_classes(ran: Ran) -> None:
    made = ran.variants("TestParametrized::test_n")
    assert set(made) == {"test_n_n_1", "test_n_n_2"}
    assert made["test_n_n_1"]["mode"] == "xfail"


def test_one_parametrisation_can_be_named(ran: Ran) -> None:
    second = ran.variants("TestParametrized::test_n")["test_n_n_2"]
    assert (second["mode"], second["reason"]) == ("skip", "the second alone")
    many = ran.variants("TestGeneric::test_many")
    assert {name: record["mode"] for name, record in many.items()} == {
        "test_many_n_1_spyre_float32": "mandatory_success",
        "test_many_n_2_spyre_float32": "xfail",
    }
    assert many["test_many_n_2_spyre_float32"]["tags"] == ["second"]


def test_ids_are_upstreams_and_a_body_runs_once(ran: Ran) -> None:
    assert all("PRIVATEUSE1" not in key and "SPYRE" not in key for key in ran.records)
    assert all(len(records) == 1 for records in ran.records.values())
    assert ran.outcome("test_one_body_spyre") == "passed"
