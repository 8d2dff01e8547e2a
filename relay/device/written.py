"""``out=``: the device's tensor takes what the CPU's kernel made of its alias; the short way of operators with one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from relay.device.errors import UnsupportedDtype
from relay.device.memory import (
    CPU,
    CPU_KEYS,
    adopt,
    check_result,
    copy_bytes,
    cpu_alias,
    device_alias,
    lies_in_bytes,
    raise_if_out_of_memory,
    same_elements,
    set_memory,
    span,
)
from relay.device.meter import METER
from relay.device.plain import NUMBERS, General, LongWay, cost_of, seen_by_cpu
from relay.device.plan import Kernel, Plan
from relay.device.policy import CURRENT

_Tensor = torch.Tensor
_strided = torch.strided
_same_memory = torch._C._is_alias_of


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


def kernel_for(plan: Plan, general: General) -> Kernel:
    """The kernel of an operator with one ``out=`` (`Plan.writes_out`), to be registered. ``general`` is the long way,
    also for a large ``out=`` that may have to grow, and for one that lies over another argument."""
    call, name, pointwise, tensor_at = plan.call, plan.outs[0], plan.physical, plan.tensor_at

    def kernel(*args: Any, **kwargs: Any) -> Any:
        costs = CURRENT.costs.get(plan)
        out = kwargs.get(name)
        if costs is None or not isinstance(out, _Tensor) or out.is_cpu or out.layout is not _strided:
            return general(args, kwargs)
        inputs: list[torch.Tensor] = []
        try:
            seen = [out if value is out else seen_by_cpu(value, inputs, []) for value in args]
        except LongWay:
            return general(args, kwargs)
        for i in tensor_at:
            if i < len(args) and isinstance(args[i], NUMBERS):
                return general(args, kwargs)
        over = [i for i, value in enumerate(args) if value is out]
        keeps_memory = pointwise and out.numel() and _fits(out, inputs)
        if keeps_memory:
            alias = device_alias(out)
        elif over or any(_same_memory(out, tensor) for tensor in inputs):
            return general(args, kwargs)
        else:
            alias = stand_in(out)
        if alias is None:
            return general(args, kwargs)
        for i in over:
            inputs.append(out)
            seen[i] = alias
        kwargs[name] = alias
        try:
            call(CPU_KEYS, *seen, **kwargs)
            if not keeps_memory:
                follow(out, alias)
        except UnsupportedDtype:
            METER.refused("refused_dtypes")
            raise
        except RuntimeError as error:
            raise_if_out_of_memory(error)
            raise
        inputs.append(out)
        key: tuple[Any, ...] = ()
        for tensor in inputs:
            key += (tensor.shape, tensor.dtype)
        METER.add(costs.get(key) or cost_of(plan, costs, key, inputs, (out,)))
        return out

    return kernel


def _fits(out: torch.Tensor, inputs: Sequence[torch.Tensor]) -> bool:
    """Whether a pointwise operator over these leaves an ``out=`` as it is, and does not lie over it by halves."""
    shape = out.shape
    if not inputs or inputs[0].shape != shape:
        return False
    return all(
        (tensor.shape == shape or not tensor.dim()) and (not _same_memory(out, tensor) or same_elements(out, tensor))
        for tensor in inputs
    )
