"""Storages of the device from Python: making, saving, loading, and pinned host memory."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

import torch

from relay.device.dlpack import DL_CPU, flip
from relay.device.memory import NAME, allocate_bytes, empty_like_dtype, host_view

_pinned: weakref.WeakValueDictionary[int, torch.UntypedStorage] = weakref.WeakValueDictionary()


def new_storage(nbytes: int) -> torch.UntypedStorage:
    """An uninitialised storage of ``nbytes`` on the device."""
    return allocate_bytes(nbytes).untyped_storage()


def bytes_of(storage: torch.UntypedStorage) -> torch.Tensor:
    """The bytes of a device storage as a CPU uint8 tensor, valid while the storage lives."""
    out = torch.empty(0, dtype=torch.uint8)
    if storage.nbytes():
        out.set_(host_view(storage))
    return out


def _tag(storage: torch.UntypedStorage) -> str | None:
    return f"{NAME}:0" if storage.device.type == NAME else None


def _restore(storage: torch.UntypedStorage, location: str) -> torch.UntypedStorage | None:
    if location.partition(":")[0] != NAME:
        return None
    out = new_storage(storage.nbytes())
    if storage.nbytes():
        bytes_of(out).copy_(torch.empty(0, dtype=torch.uint8).set_(storage))
    return out


def _install_storage_class() -> None:
    # The C++ constructor asks the device's allocator, which a Python backend has not got: the process would crash.
    original = torch.UntypedStorage.__new__

    def new(cls: type, *args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        if device is None or torch.device(device).type != NAME:
            return original(cls, *args, **kwargs)
        if not args or isinstance(args[0], int):
            return new_storage(args[0] if args else 0)
        data = bytearray(args[0])
        out = new_storage(len(data))
        if data:
            bytes_of(out).copy_(torch.frombuffer(data, dtype=torch.uint8))
        return out

    torch.UntypedStorage.__new__ = new


def give(storage: torch.UntypedStorage, fresh: torch.UntypedStorage) -> None:
    """Let a storage, and so every tensor that lies in it, have the memory of ``fresh``, which is left with none.

    The hook that resizes a device's storage cannot be given from Python. Two storages may trade their memory when one
    of them is empty: so in two trades, of its memory for none, and of none for the new one.
    """
    for other in (empty_like_dtype(torch.uint8).untyped_storage(), fresh):
        if storage.nbytes() or other.nbytes():
            storage._swap_data_ptr_(other)


def _install_resize() -> None:
    original = torch.UntypedStorage.resize_

    def resize_(self: torch.UntypedStorage, size: int) -> torch.UntypedStorage:
        if self.device.type != NAME:
            return original(self, size)
        if size == self.nbytes():
            return self
        if size < 0:
            raise RuntimeError(f"{NAME}: a storage cannot have {size} bytes")
        fresh = new_storage(size)
        kept = min(size, self.nbytes())
        if kept:
            ctypes.memmove(fresh.data_ptr(), self.data_ptr(), kept)
        give(self, fresh)
        return self

    torch.UntypedStorage.resize_ = resize_


def pin(tensor: torch.Tensor, device: Any = None) -> torch.Tensor:
    """``aten::_pin_memory`` for CPU tensors: a copy in memory that the device knows of."""
    if tensor.layout is not torch.strided:
        raise RuntimeError(f"cannot pin '{tensor.type()}' only dense CPU tensors can be pinned")
    if is_pinned(tensor):
        return tensor
    block = flip(allocate_bytes(tensor.numel() * tensor.element_size()), DL_CPU)  # aligned to a stick
    _pinned[block.untyped_storage().data_ptr()] = block.untyped_storage()
    out = torch.empty(0, dtype=tensor.dtype)
    fresh = torch.empty_like(tensor, device="meta")
    out.set_(block.untyped_storage(), 0, fresh.size(), fresh.stride())
    return out.copy_(tensor)


def is_pinned(tensor: torch.Tensor, device: Any = None) -> bool:
    """``aten::is_pinned`` for CPU tensors."""
    if not _pinned or tensor.layout is not torch.strided:
        return False
    return tensor.untyped_storage().data_ptr() in _pinned


def install(lib: torch.library.Library) -> None:
    """``lib``: aten's."""
    torch.serialization.register_package(5, _tag, _restore)
    _install_storage_class()
    _install_resize()
    lib.impl("_pin_memory", pin, "CPU")
    lib.impl("is_pinned", is_pinned, "CPU")
