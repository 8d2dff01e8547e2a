"""All memory as one array, and the keys that kernels are called by."""

from __future__ import annotations

import ctypes

import torch

CPU = torch.device("cpu")
CPU_KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
# Composite kernels are those of no backend, too; called so they go on to the device's own operators.
TORCHS_OWN_KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.Undefined)
# An index is cheaper than an object made for an address, and every operator reads and writes a dozen.
WORDS = (ctypes.c_int64 * (2**59)).from_address(0)
"""8 bytes each, signed, at the address of 8 times the index."""
SHORTS = (ctypes.c_uint16 * (2**61)).from_address(0)
"""2 bytes each, at the address of twice the index."""
BYTES = memoryview(WORDS).cast("B")
"""To copy by slices, which costs a quarter of ctypes.memmove."""
