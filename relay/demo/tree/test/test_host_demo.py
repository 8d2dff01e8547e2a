# Owner(s): ["module: demo"]
"""Bookkeeping in plain Python: nothing here touches a device."""

from ladder_operands import broadcast_extent, ladder_values
from torch.testing._internal.common_utils import TestCase, run_tests


class TestHostDemo(TestCase):
    def test_ladder_values_rise_evenly(self):
        self.assertEqual(ladder_values(4, step=0.5), [0.5, 1.0, 1.5, 2.0])

    def test_broadcast_extent(self):
        self.assertEqual(broadcast_extent(1, 7, 1, 7), 7)
        with self.assertRaisesRegex(ValueError, "do not broadcast"):
            broadcast_extent(2, 3)


if __name__ == "__main__":
    run_tests()
