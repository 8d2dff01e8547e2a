# Owner(s): ["module: demo"]
"""Python references of operators: run on the device, compared with the operator on the CPU."""

import torch
from torch.testing._internal.common_device_type import instantiate_device_type_tests, ops
from torch.testing._internal.common_methods_invocations import python_ref_db
from torch.testing._internal.common_utils import TestCase, run_tests

COVERED = {"_refs.addcdiv", "_refs.deg2rad", "_refs.rad2deg", "_refs.rsub", "_refs.square"}

covered_refs = [op for op in python_ref_db if op.name in COVERED]


class TestRefsDemo(TestCase):
    @ops(covered_refs, allowed_dtypes=(torch.float32, torch.float16))
    def test_ref_matches_operator(self, device, dtype, op):
        compared = 0
        for sample in op.sample_inputs("cpu", dtype):
            wanted = op.torch_opinfo.op(sample.input, *sample.args, **sample.kwargs)
            moved = sample.transform(lambda value: value.to(device) if isinstance(value, torch.Tensor) else value)
            got = op.op(moved.input, *moved.args, **moved.kwargs)
            self.assertEqual(got.cpu(), wanted)
            compared += 1
        self.assertGreater(compared, 0)


instantiate_device_type_tests(TestRefsDemo, globals())

if __name__ == "__main__":
    run_tests()
