"""``out=``: the device's tensor takes what the CPU's kernel made of its alias; the short way of operators with one."""

from __future__ import annotations

from typing import Any

import torch

from relay.device.errors import UnsupportedDtype
from relay.device.memory import CPU, CPU_KEYS, adopt, device_alias, raise_if_out_of_memory, set_memory
from relay.device.meter import METER
from relay.device.plain import NUMBERS, General, LongWay, cost_of, seen_by_cpu
from relay.device.plan import Kernel, Plan
from relay.device.policy import CURRENT

_Tensor = torch.Tensor
_strided = torch.strided
_same_memory = torch._C._is_alias_of


def fresh(out: torch.Tensor) -> torch.Tensor:
    """Memory of the CPU's own in the place of an ``out=`` without elements. It nearly always has to grow, which
    borrowed memory cannot: finding that out by an error takes longer than all the rest of a small operator."""
    return torch.empty_strided(out.size(), out.stride(), dtype=out.dtype, device=CPU)


def follow(device: torch.Tensor, alias: torch.Tensor) -> None:
    """After an in-place or ``out=`` kernel: give the device tensor the sizes, strides or memory its alias was given."""
    if alias.data_ptr() == device.data_ptr() or not alias.numel():
        if device.shape != alias.shape or device.stride() != alias.stride():
            set_memory(device, device.untyped_storage(), device.storage_offset(), alias.size(), alias.stride())
        return
    start = device.untyped_storage().data_ptr()
    offset = alias.data_ptr() - start
    if 0 <= offset < device.untyped_storage().nbytes():
        set_memory(device, device.untyped_storage(), offset // alias.element_size(), alias.size(), alias.stride())
        return
    grown = adopt(alias)
    set_memory(device, grown.untyped_storage(), grown.storage_offset(), grown.size(), grown.stride())


def kernel_for(plan: Plan, general: General) -> Kernel:
    """The kernel of an operator with one ``out=`` (`Plan.writes_out`), to be registered. ``general`` is the long way,
    also for an ``out=`` that has elements and may have to grow, or that lies over another argument."""
    call, name, pointwise, tensor_at = plan.call, plan.outs[0], plan.physical, plan.tensor_at

    def kernel(*args: Any, **kwargs: Any) -> Any:
        costs = CURRENT.costs.get(plan)
        out = kwargs.get(name)
        if costs is None or not isinstance(out, _Tensor) or out.is_cpu or out.layout is not _strided:
            return general(args, kwargs)
        grows = not out.numel()
        alias = fresh(out) if grows else device_alias(out)
        inputs: list[torch.Tensor] = []
        seen = []
        try:
            for value in args:
                if value is out:
                    inputs.append(out)
                    seen.append(alias)
                else:
                    seen.append(seen_by_cpu(value, inputs, []))
        except LongWay:
            return general(args, kwargs)
        for i in tensor_at:
            if i < len(args) and isinstance(args[i], NUMBERS):
                return general(args, kwargs)
        if not grows:
            shape = out.shape
            if not (pointwise and inputs and inputs[0].shape == shape):
                return general(args, kwargs)
            for tensor in inputs:
                if tensor is not out and ((tensor.shape != shape and tensor.dim()) or _same_memory(out, tensor)):
                    return general(args, kwargs)
        kwargs[name] = alias
        try:
            call(CPU_KEYS, *seen, **kwargs)
            if grows:
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
