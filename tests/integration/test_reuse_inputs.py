"""Inputs that configs give to upstream's own ``@ops`` and ``@modules`` tests, modules added by their path, and the
limits that torch 2.13's own test class can carry (``op_allowlist``, ``test_exclusions``)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import reuse_process
from reuse_process import Ran

pytestmark = pytest.mark.torch

SOURCE = """
import torch
from torch.testing._internal.common_utils import TestCase
from torch.testing._internal.common_device_type import instantiate_device_type_tests, ops
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db, modules

ADD = [op for op in op_db if op.full_name in ("add", "mul")]
LINEAR = [m for m in module_db if m.name in ("nn.Linear", "nn.Tanh")]
OWN = {op.name: op.sample_inputs_func for op in ADD}


def said(sample):
    first = sample.input
    return tuple(first.shape), first.stride(), first.storage_offset(), str(first.dtype), first.device.type


class TestInputs(TestCase):
    @ops(ADD, allowed_dtypes=(torch.float32, torch.float16))
    def test_of_one_op(self, device, dtype, op):
        found = [said(sample) for sample in op.sample_inputs(device, dtype)]
        if op.name == "mul":
            self.assertGreater(len(found), 2)
            return
        self.assertEqual(found, [((4, 4), (1, 4), 3, str(dtype), torch.device(device).type)])
        (sample,) = op.sample_inputs(device, dtype, requires_grad=True)
        self.assertTrue(sample.input.requires_grad)
        self.assertEqual(sample.kwargs, {"alpha": 2})
        (again,) = op.sample_inputs(device, dtype)
        self.assertEqual(again.input, sample.input)
        wanted = op(sample.input.cpu(), sample.args[0].cpu(), alpha=2)
        self.assertEqual(op(sample.input, *sample.args, **sample.kwargs).cpu(), wanted)

    @ops(ADD, allowed_dtypes=(torch.float32, torch.int64))
    def test_of_all_ops(self, device, dtype, op):
        found = [(said(sample)[0], sample.args) for sample in op.sample_inputs(device, dtype)]
        self.assertEqual(found, [((2,), (3,)), ((), (4.5,))])
        self.assertEqual([s[0] for s in map(said, op.reference_inputs(device, dtype))], [(2,), ()])

    @ops(ADD, allowed_dtypes=(torch.float32,))
    def test_without_a_first(self, device, dtype, op):
        list(op.sample_inputs(device, dtype))

    @ops(ADD, allowed_dtypes=(torch.float32,))
    def test_of_a_file(self, device, dtype, op):
        list(op.sample_inputs(device, dtype))

    @ops(ADD, allowed_dtypes=(torch.float32,))
    def test_as_it_was(self, device, dtype, op):
        self.assertIs(op.sample_inputs_func, OWN[op.name])

    @modules(LINEAR, allowed_dtypes=(torch.float32,))
    def test_modules(self, device, dtype, module_info, training):
        inputs = module_info.module_inputs_func(
            module_info, device=device, dtype=dtype, requires_grad=False, training=training)
        for given in inputs:
            built = module_info.module_cls(*given.constructor_input.args, **given.constructor_input.kwargs)
            out = built.to(device)(*given.forward_input.args, **given.forward_input.kwargs)
            if module_info.name == "nn.Linear":
                self.assertEqual(tuple(out.shape), (7, 5))
            elif module_info.name == "shuffle":
                self.assertEqual((type(built), tuple(out.shape)), (torch.nn.PixelShuffle, (1, 1, 4, 4)))
            elif module_info.name == "nn.Tanh":
                self.assertGreater(len(inputs), 0)


instantiate_device_type_tests(TestInputs, globals())
"""
TENSOR = "{tensor: {shape: [4, 4], stride: [1, 4], storage_offset: 3, dtype: float32, init: randn}}"
CONFIG = f"""
test_suite_config:
  files:
    - path: ${{TORCH_ROOT}}/test/test_inputs.py
      unlisted_test_mode: mandatory_success
      tests:
        - names: [TestInputs::test_of_one_op]
          edits:
            ops:
              include:
                - name: add
                  sample_inputs_func: {{args: [{TENSOR}, {{tensor: {{shape: [4, 1]}}}}], kwargs: {{alpha: 2}}}}
        - names: [TestInputs::test_of_all_ops]
          edits:
            inputs:
              - {{args: [{{tensor: {{shape: [2], init: ones}}}}, {{value: 3}}]}}
              - {{args: [{{tensor: {{shape: [], init: full, init_args: {{fill_value: 2}}}}}}, {{py: "4.5"}}]}}
        - names: [TestInputs::test_without_a_first]
          edits: {{inputs: {{kwargs: {{other: 1}}}}}}
        - names: [TestInputs::test_of_a_file]
          edits: {{inputs: {{args: [{{tensor: {{shape: [2], init: file, init_args: {{path: a.pt}}}}}}]}}}}
        - names: [TestInputs::test_modules]
          edits:
            modules:
              include:
                - name: nn.Linear
                  constructor_inputs: {{args: [{{value: 3}}, {{value: 5}}]}}
                  forward_inputs: {{args: [{{tensor: {{shape: [7, 3]}}}}]}}
                - name: shuffle
                  module_path: torch.nn.PixelShuffle
                  constructor_inputs: {{args: [{{value: 2}}]}}
                  forward_inputs: [{{args: [{{tensor: {{shape: [1, 4, 2, 2]}}}}]}}]
                - {{name: theirs, module_path: os.path.Linear, forward_inputs: {{args: [{{value: 1}}]}}}}
                - {{name: not_given, module_path: torch.nn.Flatten}}
  global: {{input_config: {{seed: 3}}}}
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return reuse_process.run(tmp_path_factory.mktemp("inputs"), {"test/test_inputs.py": SOURCE}, {"x.yaml": CONFIG})


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_an_op_is_called_with_the_configs_inputs_in_the_variants_dtype(ran: Ran, dtype: str) -> None:
    assert ran.said(f"test_of_one_op_add_spyre_{dtype}") == ["passed", ""]
    assert ran.said(f"test_of_one_op_mul_spyre_{dtype}") == ["passed", ""]


@pytest.mark.parametrize("variant", ["add_spyre_float32", "mul_spyre_float32", "add_spyre_int64", "mul_spyre_int64"])
def test_inputs_of_the_entry_are_for_all_of_its_ops(ran: Ran, variant: str) -> None:
    assert ran.said(f"test_of_all_ops_{variant}") == ["passed", ""]


def test_inputs_that_cannot_be_given_say_where_they_stand(ran: Ran) -> None:
    outcome, said = ran.said("test_without_a_first_add_spyre_float32")
    assert outcome == "failed"
    assert re.search(r"x.yaml:\d+: inputs of an op need a first argument", said)
    outcome, said = ran.said("test_of_a_file_add_spyre_float32")
    assert outcome == "skipped"
    assert "a.pt was not given along with the config" in said


def test_upstreams_objects_stay_as_they_are(ran: Ran) -> None:
    assert ran.outcome("test_as_it_was_add_spyre_float32") == "passed"


def test_modules_are_made_of_the_configs_inputs_and_added_by_their_path(ran: Ran) -> None:
    assert set(ran.variants("TestInputs::test_modules")) == {
        f"test_modules_{name}_spyre_float32" for name in ("nn_Linear", "nn_Tanh", "shuffle", "theirs", "not_given")
    }
    for name in ("nn_Linear", "nn_Tanh", "shuffle"):
        assert ran.said(f"test_modules_{name}_spyre_float32") == ["passed", ""]
    outcome, said = ran.said("test_modules_theirs_spyre_float32")
    assert outcome == "skipped"
    assert "os.path.Linear is not a module of torch.nn" in said
    outcome, said = ran.said("test_modules_not_given_spyre_float32")
    assert outcome == "failed"
    assert "needs forward_inputs" in said


def test_modules_of_a_package_are_had_where_the_machines_owner_allows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from relay.reuse.model_inputs import Unbuildable
    from relay.reuse.model_ops import PACKAGES, packages, resolve_module

    (tmp_path / "model_of_ours.py").write_text("import torch\nclass Net(torch.nn.Module):\n    pass\nNOT = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(Unbuildable, match=r"not a module of torch\.nn"):
        resolve_module("model_of_ours.Net", packages())
    monkeypatch.setenv(PACKAGES, "model_of_ours,other")
    assert resolve_module("model_of_ours.Net", packages()).__name__ == "Net"
    with pytest.raises(Unbuildable, match=r"not a module of torch\.nn, model_of_ours, other"):
        resolve_module("model_of_ours.NOT", packages())
    with pytest.raises(Unbuildable, match="cannot be imported here"):
        resolve_module("other.Net", packages())
