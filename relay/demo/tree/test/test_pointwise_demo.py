# Owner(s): ["module: demo"]
"""Elementwise operators: what the device computes against what the CPU computes."""

import torch
from ladder_operands import ladder, weights_like
from torch.testing._internal.common_device_type import dtypes, instantiate_device_type_tests, onlyCUDA, ops
from torch.testing._internal.common_methods_invocations import binary_ufuncs, unary_ufuncs
from torch.testing._internal.common_utils import TestCase, run_tests, slowTest

SMOOTH_UNARY = {"abs", "exp", "neg", "reciprocal", "rsqrt", "sigmoid", "sqrt", "tanh"}
ARITHMETIC = {"add", "mul", "sub", "true_divide"}

smooth_unary_ops = [op for op in unary_ufuncs if op.name in SMOOTH_UNARY]
arithmetic_ops = [op for op in binary_ufuncs if op.name in ARITHMETIC]


def halves(tensor):
    """The left and the right half of the last dimension, as views."""
    middle = tensor.shape[-1] // 2
    return tensor[..., :middle], tensor[..., middle:]


class TestPointwiseDemo(TestCase):
    def assertSameAsCPU(self, fn, *operands):
        """``fn`` of device operands gives what ``fn`` of the same numbers gives on the CPU."""
        self.assertEqual(fn(*operands).cpu(), fn(*(operand.cpu() for operand in operands)))

    @ops(smooth_unary_ops, allowed_dtypes=(torch.float32, torch.float16))
    def test_unary_matches_cpu(self, device, dtype, op):
        self.assertSameAsCPU(op.op, ladder((4, 6), device=device, dtype=dtype))

    @ops(arithmetic_ops, allowed_dtypes=(torch.float32, torch.float16))
    def test_binary_matches_cpu(self, device, dtype, op):
        left, right = halves(ladder((3, 8), device=device, dtype=dtype))
        self.assertSameAsCPU(op.op, left, right)

    @dtypes(torch.float32, torch.float16)
    def test_weighted_rows(self, device, dtype):
        rows = ladder((3, 5), device=device, dtype=dtype)
        self.assertSameAsCPU(torch.mul, rows, weights_like(rows))

    @dtypes(torch.float32, torch.float16)
    def test_weighted_difference(self, device, dtype):
        left, right = halves(ladder((2, 8), device=device, dtype=dtype))
        weighted = (right - left) * weights_like(left)
        self.assertEqual(weighted.shape, left.shape)
        self.assertTrue(bool((weighted.cpu() > 0).all()))

    @dtypes(torch.float32)
    def test_add_in_place(self, device, dtype):
        total = ladder((4, 4), device=device, dtype=dtype)
        before = total.clone()
        total.add_(before)
        self.assertEqual(total.cpu(), 2 * before.cpu())

    @dtypes(torch.float32)
    def test_clamp_from_below(self, device, dtype):
        values = ladder((2, 6), device=device, dtype=dtype)
        floor = torch.full((6,), 1.0, device=device, dtype=dtype)
        self.assertEqual(torch.maximum(values, floor).cpu(), values.cpu().clamp(min=1.0))

    @dtypes(torch.float32)
    def test_offset_by_weights(self, device, dtype):
        # known to fail on every device but the CPU: the offsets stay on the CPU
        values = ladder((2, 3), device=device, dtype=dtype)
        offsets = torch.ones(3, dtype=dtype)
        self.assertEqual((values * weights_like(values) + offsets).shape, values.shape)

    @dtypes(torch.float32)
    def test_halves_are_views(self, device, dtype):
        values = torch.zeros(2, 4, device=device, dtype=dtype)
        left, _ = halves(values)
        left += 1
        self.assertEqual(values.cpu().sum().item(), 4.0)

    @onlyCUDA
    @dtypes(torch.float32)
    def test_weights_across_streams(self, device, dtype):
        values = ladder((2, 3), device=device, dtype=dtype)
        with torch.cuda.stream(torch.cuda.Stream()):
            scaled = values * weights_like(values)
        torch.cuda.synchronize()
        self.assertEqual(scaled.shape, values.shape)

    @slowTest
    @dtypes(torch.float32)
    def test_long_chain(self, device, dtype):
        values = ladder((64, 64), device=device, dtype=dtype)
        for _ in range(2000):
            values = torch.tanh(values + 1)
        self.assertTrue(bool((values.cpu() < 1.01).all()))


instantiate_device_type_tests(TestPointwiseDemo, globals())

if __name__ == "__main__":
    run_tests()
