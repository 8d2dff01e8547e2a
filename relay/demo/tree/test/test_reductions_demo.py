# Owner(s): ["module: demo"]
"""Sums, means and matrix products on the device."""

import torch
from torch.testing._internal.common_device_type import dtypes, instantiate_device_type_tests, ops
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import TestCase, parametrize, run_tests

plain_reductions = [op for op in op_db if op.name in ("mean", "sum") and not op.variant_test_name]


def steps(rows, columns, device, dtype):
    """A ``rows`` by ``columns`` tensor that holds the row's number in every place."""
    column = torch.tensor([float(row) for row in range(rows)], device=device, dtype=dtype)
    return column.reshape(rows, 1).expand(rows, columns)


class TestReductionsDemo(TestCase):
    @ops(plain_reductions, allowed_dtypes=(torch.float32,))
    def test_whole_tensor(self, device, dtype, op):
        values = steps(3, 4, device, dtype)
        self.assertEqual(op.op(values).cpu(), op.op(values.cpu()))

    @parametrize("dim", [0, 1])
    @dtypes(torch.float32, torch.float16)
    def test_sum_along(self, device, dtype, dim):
        values = steps(4, 4, device, dtype)
        self.assertEqual(values.sum(dim).cpu(), values.cpu().sum(dim))

    @dtypes(torch.float32)
    def test_product_of_matrices(self, device, dtype):
        left = steps(2, 3, device, dtype).contiguous()
        right = steps(3, 2, device, dtype).contiguous()
        self.assertEqual((left @ right).cpu(), left.cpu() @ right.cpu())


instantiate_device_type_tests(TestReductionsDemo, globals())

if __name__ == "__main__":
    run_tests()
