# Owner(s): ["module: demo"]
"""Modules of the installed module database: one forward pass on the device against one on the CPU."""

import torch
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_modules import module_db, modules
from torch.testing._internal.common_utils import TestCase, run_tests

small_modules = [info for info in module_db if info.name in ("nn.Linear", "nn.ReLU", "nn.Sigmoid")]


class TestModulesDemo(TestCase):
    @modules(small_modules, allowed_dtypes=(torch.float32,))
    def test_forward(self, device, dtype, module_info, training):
        inputs = module_info.module_inputs_func(
            module_info, device="cpu", dtype=dtype, requires_grad=False, training=training
        )
        for example in inputs:
            if example.forward_input is None:
                continue
            made, given = example.constructor_input, example.forward_input
            module = module_info.module_cls(*made.args, **made.kwargs).to(dtype).train(training)
            wanted = module(*given.args, **given.kwargs)
            args = [value.to(device) for value in given.args]
            kwargs = {name: value.to(device) for name, value in given.kwargs.items()}
            got = module.to(device)(*args, **kwargs)
            self.assertEqual(got.cpu(), wanted)


instantiate_device_type_tests(TestModulesDemo, globals())

if __name__ == "__main__":
    run_tests()
