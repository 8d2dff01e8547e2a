"""Operands with values that a person can check by hand; shared by several test files."""

import torch


def ladder_values(count, step=0.25):
    """``count`` rising numbers: step, 2 * step, 3 * step, ..."""
    return [step * (i + 1) for i in range(count)]


def ladder(shape, *, device, dtype):
    """A tensor of ``shape`` on ``device`` that counts up along its last dimension, row after row."""
    count = 1
    for extent in shape:
        count *= extent
    return torch.tensor(ladder_values(count), device=device, dtype=dtype).reshape(shape)


def weights_like(tensor):
    """One positive weight for each column of ``tensor``, on its device and in its dtype."""
    return torch.tensor(ladder_values(tensor.shape[-1]), device=tensor.device, dtype=tensor.dtype)


def broadcast_extent(*extents):
    """The extent that several extents broadcast to. ValueError where they do not."""
    wide = {extent for extent in extents if extent != 1}
    if len(wide) > 1:
        raise ValueError(f"extents {sorted(wide)} do not broadcast")
    return wide.pop() if wide else 1
