"""Operators that are about memory itself (make, resize, read, view) and those that exist only for devices."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from relay.device import copies
from relay.device.fallback import fallback
from relay.device.labels import FOUND, NOT_LENT, lent
from relay.device.lazy import lazy_clone
from relay.device.memory import (
    MOST,
    allocate_bytes,
    contiguous_strides,
    cpu_alias,
    empty_like_dtype,
    new_tensor,
    owned,
    refuse_size,
    set_memory,
    span,
)
from relay.device.meter import METER
from relay.device.plan import Kernel, overload
from relay.device.policy import CURRENT
from relay.device.shortage import made
from relay.device.storage import bytes_of, give
from relay.device.words import CPU, CPU_KEYS

_aten = torch.ops.aten
_CHANNELS_LAST = (torch.channels_last, torch.channels_last_3d)

# View operators whose CPU kernel only writes sizes and strides, so it serves any device's tensor.
METADATA_OPS = (
    "as_strided",
    "view",
    "_reshape_alias",
    "unfold",
    "view.dtype",
    "view_as_real",
    "view_as_complex",
    "is_set_to",
)
# All memory, as `item()` reads the types that Python has: an array, and the size of its elements.
_READ: dict[torch.dtype, tuple[Any, int]] = {
    dtype: ((ctype * (2**62 // ctypes.sizeof(ctype))).from_address(0), ctypes.sizeof(ctype))
    for dtype, ctype in (
        (torch.float32, ctypes.c_float),
        (torch.float64, ctypes.c_double),
        (torch.int64, ctypes.c_int64),
        (torch.int32, ctypes.c_int32),
        (torch.int16, ctypes.c_int16),
        (torch.int8, ctypes.c_int8),
        (torch.uint8, ctypes.c_uint8),
        (torch.bool, ctypes.c_bool),
    )
}
_item = torch.ops.aten._local_scalar_dense.default._handle.redispatch_boxed
RETYPING = frozenset(["view.dtype", "view_as_real", "view_as_complex"])


def metadata_kernel(name: str) -> Kernel:
    """The CPU kernel of a view operator, run on the device's own tensor."""
    kernel: Kernel = partial(overload(name)._handle.redispatch_boxed, CPU_KEYS)

    def retyping(*args: Any, **kwargs: Any) -> Any:
        out = kernel(*args, **kwargs)
        CURRENT.policy.check_dtype(out.dtype)
        return out

    return retyping if name in RETYPING else kernel


_set_within = metadata_kernel("set_.source_Storage_storage_offset")


def _strides(size: Sequence[int], memory_format: torch.memory_format | None) -> tuple[int, ...]:
    if memory_format in _CHANNELS_LAST:
        return tuple(torch.empty(size, device="meta", memory_format=memory_format).stride())
    return contiguous_strides(size)


def _fills() -> bool:
    """Whether uninitialised memory must be filled with a value that shows."""
    return torch.are_deterministic_algorithms_enabled() and bool(torch.utils.deterministic.fill_uninitialized_memory)


def _fill(alias: torch.Tensor) -> None:
    if alias.dtype.is_floating_point or alias.dtype.is_complex:
        alias.fill_(float("nan"))
    else:
        alias.fill_(True if alias.dtype is torch.bool else torch.iinfo(alias.dtype).max)


def _made(size: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype | None) -> torch.Tensor:
    if dtype is torch.complex32:
        torch.empty(0, dtype=dtype)  # torch warns of the experimental dtype where it makes such a tensor
    out = new_tensor(size, stride, dtype or torch.get_default_dtype())
    if _fills():
        _fill(cpu_alias(out))
    return out


def empty(
    size: Sequence[int],
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
    memory_format: torch.memory_format | None = None,
) -> torch.Tensor:
    """``aten::empty.memory_format``."""
    if pin_memory:
        raise RuntimeError("Only dense CPU tensors can be pinned")
    labels, policy = FOUND.labels, CURRENT.policy
    if labels is not None and policy.dtypes is None and policy.memory_bytes is None:  # torch says all there is to say
        fresh = made(torch.empty, size, dtype=dtype, device=CPU, memory_format=memory_format)
        return owned(labels, fresh, filled=_fills())
    extents = tuple(map(int, size))
    if extents and min(extents) < 0:
        negative = next(extent for extent in extents if extent < 0)
        raise RuntimeError(f"Trying to create tensor with negative dimension {negative}: {list(extents)}")
    return _made(extents, _strides(extents, memory_format), dtype)


def empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
) -> torch.Tensor:
    """``aten::empty_strided``."""
    if pin_memory:
        raise RuntimeError("Only dense CPU tensors can be pinned")
    if len(size) != len(stride):
        n, m = len(size), len(stride)
        raise RuntimeError(f"dimensionality of sizes ({n}) must match dimensionality of strides ({m})")
    return _made(tuple(map(int, size)), tuple(map(int, stride)), dtype)


def zero_tensor(size: Sequence[int], **options: Any) -> torch.Tensor:
    """``aten::_efficientzerotensor``: real zeros. torch's lazy kind has no memory, and asks a C++ allocator for it."""
    return empty(size, **options).zero_()


def resize_(
    self: torch.Tensor, size: Sequence[int], *, memory_format: torch.memory_format | None = None
) -> torch.Tensor:
    """``aten::resize_``: new memory when the old is too small, with the old bytes kept, for views of it, too."""
    extents = tuple(int(s) for s in size)
    if tuple(self.shape) == extents and memory_format not in _CHANNELS_LAST:
        return self
    stride = _strides(extents, memory_format)
    elements = span(extents, stride)
    needed = (elements + self.storage_offset()) * self.element_size() if elements else 0
    storage = self.untyped_storage()
    held = storage.nbytes()
    if needed > held:
        if needed > MOST:
            refuse_size(extents, stride, self.dtype)
        grown = allocate_bytes(needed).untyped_storage()
        if _fills():
            _fill(bytes_of(grown).view(self.dtype))
        if held:
            ctypes.memmove(grown.data_ptr(), storage.data_ptr(), held)
        give(storage, grown)
    set_memory(self, storage, self.storage_offset(), extents, stride)
    return self


def local_scalar_dense(self: torch.Tensor) -> Any:
    """``aten::_local_scalar_dense``: what ``item()`` reads."""
    if self.numel() != 1:
        raise RuntimeError(f"a Tensor with {self.numel()} elements cannot be converted to Scalar")
    dtype = self.dtype
    METER.transfer("d2h_bytes", dtype.itemsize)
    read = _READ.get(dtype)
    if read is not None and not self.is_neg():
        memory, size = read
        at = self.data_ptr()
        if at % size == 0:
            return memory[at // size]
    number = lent(FOUND.labels, _item, self)
    return cpu_alias(self).item() if number is NOT_LENT else number


def set_tensor(self: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """``aten::set_.source_Tensor``."""
    return set_memory(self, source.untyped_storage(), source.storage_offset(), source.size(), source.stride())


def set_storage(self: torch.Tensor, source: torch.UntypedStorage) -> torch.Tensor:
    """``aten::set_.source_Storage``."""
    return set_memory(self, source, 0, (source.nbytes() // self.element_size(),), (1,))


def set_within(
    self: torch.Tensor,
    source: torch.UntypedStorage,
    storage_offset: int,
    size: Sequence[int],
    stride: Sequence[int] = (),
) -> torch.Tensor:
    """``aten::set_.source_Storage_storage_offset``. A storage that is too small grows, as the CPU's does."""
    extents = tuple(map(int, size))
    strides = list(map(int, stride)) or contiguous_strides(extents)
    if len(strides) == len(extents) and min((storage_offset, *extents, *strides)) >= 0:
        elements = span(extents, tuple(strides))
        needed = (elements + storage_offset) * self.element_size() if elements else 0
        if source.nbytes() < needed <= MOST:
            source.resize_(needed)
    return _set_within(self, source, storage_offset, size, stride)


def set_nothing(self: torch.Tensor) -> torch.Tensor:
    """``aten::set_``."""
    return set_memory(self, empty_like_dtype(self.dtype).untyped_storage(), 0, (0,), (1,))


# torch sends a convolution on a device it has no library for to `convolution_overrideable`, which no CPU kernel serves.


def convolution(*args: Any) -> Any:
    """``aten::convolution_overrideable``, transposed ones too: the same arguments as ``aten::convolution``."""
    return fallback(_aten.convolution.default, *args)


def convolution_backward(
    grad: torch.Tensor,
    input: torch.Tensor,  # the schema's name
    weight: torch.Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> Any:
    """``aten::convolution_backward_overrideable``, whose bias is not described: its size follows from the weight."""
    channels = weight.size(1) * groups if transposed else weight.size(0)
    args = (grad, input, weight, [channels], stride, padding, dilation, transposed, output_padding, groups, output_mask)
    return fallback(_aten.convolution_backward.default, *args)


CHECKED_BY_TORCH = ("mode.values", "native_group_norm")
"""Operators that torch serves for every device, but with a list of its own devices in front, or by a view that memory
in another order (channels last) does not allow."""

DIRECT: dict[str, Kernel] = {
    "empty.memory_format": empty,
    "empty_strided": empty_strided,
    "_efficientzerotensor": zero_tensor,
    "resize_": resize_,
    "_copy_from": copies.copy_from,
    "_to_copy": copies.to_copy,
    "_copy_from_and_resize": copies.copy_from_and_resize,
    "_local_scalar_dense": local_scalar_dense,
    "clone": copies.clone,
    "_lazy_clone": lazy_clone,
    "set_.source_Tensor": set_tensor,
    "set_.source_Storage": set_storage,
    "set_.source_Storage_storage_offset": set_within,
    "set_": set_nothing,
    "convolution_overrideable": convolution,
    "convolution_backward_overrideable": convolution_backward,
}
"""Registered for PrivateUse1 by name."""
