"""Operators that copy: to the device, back, and within it: the long way (the short one: `relay.device.moves`)."""

from __future__ import annotations

from typing import Any

import torch

from relay.device import numerics
from relay.device.labels import FOUND, NOT_LENT, lent
from relay.device.memory import (
    NAME,
    STRIDED,
    alias_within,
    as_plain,
    cpu_alias,
    device_alias,
    host_view,
    kept,
    new_tensor,
    refuse_layout,
    same_elements,
)
from relay.device.meter import METER, Cost
from relay.device.policy import CURRENT
from relay.device.shortage import made
from relay.device.words import CPU_KEYS

CLONE = torch.ops.aten.clone.default._handle.redispatch_boxed
TO_COPY = torch.ops.aten._to_copy.default._handle.redispatch_boxed
AS_IT_IS = (None, torch.preserve_format)
"""What a copy may be asked for that is in the order of what it is a copy of."""
_same_memory = torch._C._is_alias_of


def copy_from(src: torch.Tensor, dst: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    """``aten::_copy_from``: host to device, back, or within it, with conversion of dtype and layout of strides."""
    if not isinstance(src, torch.Tensor):  # a number that torch wrapped
        src = torch.tensor(src)
    src_, dst_ = as_plain(src), as_plain(dst)
    _copied(src_, dst_)
    return dst


def _copied(src: torch.Tensor, dst: torch.Tensor) -> None:
    if not (src.is_cpu or dst.is_cpu) and _same_memory(src, dst) and same_elements(src, dst):
        METER.add(device_copy(src, dst))  # the end of `x[i] += 1`: torch leaves it there, too, and a device runs it
        return
    source = None if src.is_cpu else device_alias(src)
    target = None if dst.is_cpu else device_alias(dst)
    for tensor, alias in ((src, source), (dst, target)):
        if alias is None and (tensor.layout is not torch.strided or tensor.is_quantized):
            refuse_layout(tensor, "aten::_copy_from")
    from_device, to_device = source is not None, target is not None
    if from_device and to_device and _same_memory(src, dst):
        memory = host_view(src.untyped_storage())
        source, target = alias_within(memory, src), alias_within(memory, dst)
    target = dst if target is None else target
    target.copy_(src if source is None else source)
    policy = CURRENT.policy
    if to_device and policy.changes_numbers:
        numerics.apply(policy, target)
    if from_device and to_device:
        METER.add(device_copy(src, dst))
    else:
        METER.transfer("h2d_bytes" if to_device else "d2h_bytes", src.nbytes)


def clone(self: torch.Tensor, *, memory_format: torch.memory_format | None = None) -> torch.Tensor:
    """``aten::clone``: in one trip, where torch's own takes three (strides, memory, copy)."""
    options = {} if memory_format is None else {"memory_format": memory_format}
    copy = lent(FOUND.labels, CLONE, self, **options)
    if copy is NOT_LENT:
        alias = device_alias(self)
        if alias is None:
            refuse_layout(self, "aten::clone")
        copy = made(CLONE, CPU_KEYS, alias, **options)
    out = kept(copy)
    policy = CURRENT.policy
    if policy.changes_numbers:
        numerics.apply(policy, cpu_alias(out))
    METER.add(device_copy(self, out))
    return out


_copies = METER.memo()


def device_copy(src: torch.Tensor, dst: torch.Tensor) -> Cost:
    """What a copy within the device costs. It is a kernel: a test that only copies has engaged the device."""
    key = (src.shape, src.dtype, dst.shape, dst.dtype)
    return _copies.get(key) or _copies.keep(key, METER.cost((src,), (dst,), copied=src.nbytes))


def to_copy(
    self: torch.Tensor,
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
    non_blocking: bool = False,
    memory_format: torch.memory_format | None = None,
) -> torch.Tensor:
    """``aten::_to_copy``. torch's own would ask the hooks for pinned memory when a copy to the host may not block.

    The key is chosen from the tensor *and* the device asked for, so tensors of the host come here too.
    """
    self = as_plain(self)
    from_host = self.is_cpu
    same = dtype is None or dtype is self.dtype
    options: dict[str, Any] = {}
    if memory_format not in AS_IT_IS:
        options["memory_format"] = memory_format
    if not same:
        options["dtype"] = dtype
    convert = CLONE if same else TO_COPY
    out: Any = NOT_LENT if from_host or layout not in STRIDED else lent(FOUND.labels, convert, self, **options)
    if out is NOT_LENT:
        alias = None if from_host else device_alias(self)
        strided = alias is not None or (self.layout is torch.strided and not self.is_quantized)
        if not strided or layout not in STRIDED:
            refuse_layout(self, "aten::_to_copy")
        if alias is not None:
            out = made(convert, CPU_KEYS, alias, **options)
    if from_host:
        if memory_format in AS_IT_IS and self.is_contiguous():
            fresh = new_tensor(self.shape, self.stride(), dtype or self.dtype)
        else:
            like = torch.empty_like(self, device="meta", **options)
            fresh = new_tensor(tuple(like.shape), like.stride(), like.dtype)
        target = cpu_alias(fresh)
        target.copy_(self)
        numerics.apply(CURRENT.policy, target)
        METER.transfer("h2d_bytes", self.nbytes)
        return fresh
    if device is None or device.type == NAME:
        moved = kept(out)
        policy = CURRENT.policy
        if policy.changes_numbers:
            numerics.apply(policy, cpu_alias(moved))
        METER.add(device_copy(self, moved))
        return moved
    METER.transfer("d2h_bytes", self.nbytes)
    return out if device.type == "cpu" else out.to(device)


def copy_from_and_resize(src: torch.Tensor, dst: torch.Tensor) -> torch.Tensor:
    """``aten::_copy_from_and_resize``."""
    if src.shape != dst.shape:
        dst.resize_(src.size())
    return copy_from(src, dst)
