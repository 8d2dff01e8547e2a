"""What a kernel costs in multiply-adds, and what the device's own number formats do to its results."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from relay.device.policy import Policy

_MATMULS = frozenset(["mm", "bmm", "addmm", "addmm_", "baddbmm", "baddbmm_", "addbmm", "addbmm_", "mv", "addmv", "dot"])


def multiplies(name: str) -> bool:
    """Whether `multiply_adds` has anything to say of the operator."""
    return name in _MATMULS or name == "convolution"


def multiply_adds(name: str, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> int:
    """Multiply-adds of matrix products and forward convolutions; 0 for kernels that memory bounds."""
    if not outputs:
        return 0
    if name in _MATMULS and inputs and inputs[-1].dim():
        last = inputs[-1]  # (..., k, n), or a vector of k
        return int(outputs[0].numel() * last.size(-2 if last.dim() > 1 else 0))
    if name == "convolution" and len(inputs) > 1 and inputs[1].size(0):
        return int(outputs[0].numel() * (inputs[1].numel() // inputs[1].size(0)))
    return 0


def apply(policy: Policy, result: torch.Tensor) -> None:
    """Round a fresh result in place. ``result`` is a CPU alias of it.

    float16: to nearest even at 9 mantissa bits. int64: to the value its lower 32 bits hold.
    """
    if not result.numel():
        return
    if policy.round_float16 and result.dtype is torch.float16:
        bits = result.contiguous().view(torch.int16)
        bits = bits.add((bits >> 1) & 1).bitwise_and_(-2).view(torch.float16)
        # Infinities and NaNs have nothing to round, and the carry would turn some NaNs into others.
        result.copy_(torch.where(result.isfinite(), bits, result))
    elif policy.int64_as_int32 and result.dtype is torch.int64:
        result.copy_(result.to(torch.int32))
