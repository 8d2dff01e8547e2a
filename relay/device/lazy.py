"""Copy-on-write clones: two tensors share memory until one of them is written to.

Torch has them for memory of its own allocator's, as a tensor has it that `relay.device.memory.allocate` or a kernel
made; other memory (of an alias that came through DLPack) is moved into such first. A copy that torch makes for one that
is written to is labelled as the CPU's. Of a lent tensor that is put right when it comes back; a tensor is copied
without being lent where its address is asked for, or its memory changed, so from the first such clone on, that is
looked after, too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.utils.dlpack

from relay.device.labels import FOUND, NOT_LENT, Labels, lent
from relay.device.memory import allocate_bytes, check_result, copy_bytes
from relay.device.storage import give
from relay.device.words import SHORTS, WORDS

_lazy_clone = torch.ops.aten._lazy_clone.default._handle.redispatch_boxed


def lazy_clone(self: torch.Tensor) -> torch.Tensor:
    """``aten::_lazy_clone``. Where nothing can be lent it is a clone done at once, with the same values."""
    labels = FOUND.labels
    made = NOT_LENT if labels is None else _shared(labels, self)
    if labels is None or made is NOT_LENT:
        return self.clone(memory_format=torch.preserve_format)
    _look_after_addresses(labels)
    check_result(made)
    return made


def _shared(labels: Labels, tensor: torch.Tensor) -> Any:
    storage = WORDS[(tensor._cdata >> 3) + labels.storage] >> 3
    if WORDS[storage + labels.data] != WORDS[storage + labels.context] and not torch._C._is_cow_tensor(tensor):
        memory = tensor.untyped_storage()
        own = allocate_bytes(memory.nbytes())
        copy_bytes(memory.data_ptr(), own, memory.nbytes())
        give(memory, own.untyped_storage())
    labels.let_grow(tensor)
    made = lent(labels, _lazy_clone, tensor)
    if made is not NOT_LENT:
        labels.keep(made)
    return made


_looked_after: list[Callable[..., int]] = []


def _look_after_addresses(labels: Labels) -> None:
    if _looked_after:
        return
    of_tensor, of_storage = torch.Tensor.data_ptr, torch.UntypedStorage.data_ptr
    _looked_after.extend((of_tensor, of_storage))

    def tensors(self: torch.Tensor) -> int:
        address: int = of_tensor(self)
        if not self.is_cpu and WORDS[(self._cdata >> 3) + labels.keys] in labels.to_cpu:
            labels.mark(self)
        return address

    def marked(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            at = [(one._cdata >> 1) + labels.of_storage for one in args if isinstance(one, torch.UntypedStorage)]
            ours = [place for place in at if SHORTS[place] == labels.ours]
            try:
                return method(*args, **kwargs)
            finally:
                for place in ours:
                    SHORTS[place] = labels.ours

        return call

    def to_dlpack(tensor: torch.Tensor) -> Any:
        tensor.data_ptr()
        return export(tensor)

    torch.Tensor.data_ptr = tensors
    torch.UntypedStorage.data_ptr = marked(of_storage)
    torch.UntypedStorage.byteswap = marked(torch.UntypedStorage.byteswap)
    torch.UntypedStorage._swap_data_ptr_ = marked(torch.UntypedStorage._swap_data_ptr_)
    export = torch.utils.dlpack.to_dlpack
    torch.utils.dlpack.to_dlpack = to_dlpack
