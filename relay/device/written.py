"""``out=``: the device's tensor takes what the CPU's kernel made of its alias; the short way of operators with one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from relay.device.errors import OutOfMemory
from relay.device.labels import FOUND, SET, Labels, Loans, others
from relay.device.memory import (
    adopt,
    check_result,
    copy_bytes,
    cpu_alias,
    empty_like_dtype,
    lies_in_bytes,
    set_memory,
    span,
)
from relay.device.meter import METER
from relay.device.plain import NUMBERS, General, cost_of
from relay.device.plan import Kernel, Plan
from relay.device.policy import CURRENT
from relay.device.shortage import raise_if_out_of_memory
from relay.device.words import CPU, CPU_KEYS, WORDS

_Tensor = torch.Tensor
_strided = torch.strided


_SMALL = 1 << 12
"""Elements of an ``out=`` that are rather copied than found to be unable to grow."""


def stand_in(out: torch.Tensor) -> torch.Tensor | None:
    """Memory of the CPU's own in the place of an ``out=``; None where the device's has to do.

    It may have to grow, which borrowed memory cannot: finding that out by an error takes longer than all the rest of a
    small operator. One without elements nearly always grows.
    """
    if out.layout is not _strided or (out.numel() and (out.numel() > _SMALL or not lies_in_bytes(out))):
        return None
    made = torch.empty_strided(out.shape, out.stride(), dtype=out.dtype, device=CPU)
    copy_bytes(out, made, out.nbytes)  # not every kernel writes to all of it
    return made


def follow(device: torch.Tensor, alias: torch.Tensor) -> None:
    """After an in-place or ``out=`` kernel: give the device tensor the elements, sizes, strides or memory that what it
    was seen through, or its `stand_in`, was given."""
    if alias.data_ptr() == device.data_ptr() or not alias.numel():
        _take_sizes(device, alias)
        return
    storage = device.untyped_storage()
    held = storage.nbytes()
    offset = alias.data_ptr() - storage.data_ptr()
    if 0 <= offset < held:
        set_memory(device, storage, offset // alias.element_size(), alias.size(), alias.stride())
        return
    if not (held or device.storage_offset()):
        storage._swap_data_ptr_(adopt(alias).untyped_storage())
        set_memory(device, storage, 0, alias.size(), alias.stride())
        return
    # As torch resizes: where it lies if there is room, or else with all that lies in its storage.
    needed = (device.storage_offset() + span(alias.size(), alias.stride())) * alias.element_size()
    if needed > held:
        check_result(alias)
        storage.resize_(needed)
    _take_sizes(device, alias)
    cpu_alias(device).copy_(alias)


def _take_sizes(device: torch.Tensor, alias: torch.Tensor) -> None:
    if device.shape != alias.shape or device.stride() != alias.stride():
        set_memory(device, device.untyped_storage(), device.storage_offset(), alias.size(), alias.stride())


def _check_grown(out: torch.Tensor, size: Sequence[int], stride: Sequence[int], held: int) -> None:
    """Of an ``out=`` that a kernel made larger: give it its sizes back, and raise, if the policy is against it."""
    memory = out.untyped_storage()
    try:
        check_result(out)
    except OutOfMemory:
        set_memory(out, memory, out.storage_offset(), size, stride)
        if not held:
            memory._swap_data_ptr_(empty_like_dtype(torch.uint8).untyped_storage())
        raise
    if 0 < held < memory.nbytes():
        METER.allocation(memory.nbytes())


def kernel_for(plan: Plan, general: General, labels: Labels) -> Kernel:
    """The kernel of an operator with one ``out=`` (`Plan.writes_out`), to be registered. ``general`` is the long
    way."""
    call, name, tensor_at = plan.call, plan.outs[0], plan.tensor_at
    find, at_storage, at_nbytes = Loans(labels).find, labels.storage, labels.nbytes

    def kernel(*args: Any, **kwargs: Any) -> Any:
        costs = CURRENT.costs.get(plan)
        out = kwargs.get(name)
        if costs is None or others() > FOUND.bystanders or not isinstance(out, _Tensor):
            return general(args, kwargs)
        found = find((out, *args))
        if found is None:
            return general(args, kwargs)
        inputs, key, lend, back = found
        for i in tensor_at:
            if i < len(args) and isinstance(args[i], NUMBERS):
                return general(args, kwargs)
        size, stride = out.shape, out.stride()
        held = WORDS[(WORDS[(out._cdata >> 3) + at_storage] >> 3) + at_nbytes]
        labels.let_grow(out)
        try:
            SET(lend)
            call(CPU_KEYS, *args, **kwargs)
        except RuntimeError as error:
            raise_if_out_of_memory(error)
            raise
        finally:
            SET(back)
        if out.shape != size:
            _check_grown(out, size, stride, held)
            key += (out.shape,)
        METER.add_alone(costs.get(key) or cost_of(plan, costs, key, [*inputs[1:], out], (out,)))
        return out

    return kernel
