"""The short way through an operator that is *plain* (see `relay.device.plan`): half the time of the general one.

A test of thousands of tiny operators spends nearly all its time here, so this is written for speed.
"""

from __future__ import annotations

from typing import Any

import torch

from relay.device import numerics
from relay.device.errors import UnsupportedDtype
from relay.device.memory import CPU_KEYS, adopt, device_alias, raise_if_out_of_memory, refuse_layout, shared
from relay.device.meter import METER
from relay.device.plan import Plan

_Tensor = torch.Tensor
_strided = torch.strided
_NUMBERS = (bool, int, float, complex)


def run(plan: Plan, args: tuple[Any, ...]) -> torch.Tensor | None:
    """Runs a plain operator. None: nothing was done, and the general way must be taken."""
    cpu_args: list[Any] = []
    inputs: list[torch.Tensor] = []
    tensors = 0
    for value in args:
        if isinstance(value, _Tensor):
            tensors += 1
            if value.is_cpu:
                if value.dim() or not cpu_args:
                    return None
                cpu_args.append(value)
            else:
                alias = device_alias(value)
                if alias is None:
                    return None
                inputs.append(value)
                cpu_args.append(alias)
        else:
            cpu_args.append(value)
    if not inputs:
        return None
    if plan.writes_first and len(inputs) > 1 and shared(inputs):
        return None
    call = plan.call
    if tensors < plan.tensors:  # a number in a tensor's place (see `fallback`), or a tensor left out
        for i in plan.tensor_at:
            if i < len(args) and isinstance(args[i], _NUMBERS):
                if i != 1 or plan.scalar_call is None:
                    return None
                call = plan.scalar_call
    try:
        result = call(CPU_KEYS, *cpu_args)
    except RuntimeError as error:
        raise_if_out_of_memory(error)
        raise
    out = args[0] if plan.writes_first else _adopted(plan, args, cpu_args, result)
    macs = numerics.multiply_adds(plan.name, inputs, (out,)) if plan.multiplies else 0
    METER.kernel(plan.name, inputs, (out,), macs)
    return out


def _adopted(plan: Plan, args: tuple[Any, ...], cpu_args: list[Any], result: torch.Tensor) -> torch.Tensor:
    for given, seen in zip(args, cpu_args, strict=True):
        if seen is result:
            return given
    if result.layout is not _strided or result.is_quantized:
        refuse_layout(result, plan.qualified())
    try:
        return adopt(result)
    except UnsupportedDtype:
        METER.refused("refused_dtypes")
        raise
