# Owner(s): ["module: demo"]
"""Only for CUDA: instantiated for no other device."""

import torch
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_utils import TestCase, run_tests


class TestCudaDemo(TestCase):
    def test_caching_allocator_reuses_blocks(self, device):
        first = torch.empty(1024, device=device).data_ptr()
        self.assertEqual(torch.empty(1024, device=device).data_ptr(), first)


instantiate_device_type_tests(TestCudaDemo, globals(), only_for="cuda")

if __name__ == "__main__":
    run_tests()
