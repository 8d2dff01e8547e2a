"""Tensors for tests of the emulated device, and how they are compared with the CPU's."""

from __future__ import annotations

from typing import Any


def randn(*size: int, at: str, **options: Any) -> Any:
    """Numbers drawn by the CPU, on a device."""
    import torch

    return torch.randn(*size, **options).to(at)


def same(got: Any, want: Any) -> None:
    """Holds that strides and elements are the same, wherever they lie."""
    import torch

    assert got.stride() == want.stride()  # before `cpu()`, which makes views with gaps contiguous
    torch.testing.assert_close(got.cpu(), want.cpu(), equal_nan=True)
