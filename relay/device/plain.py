"""The short way through an operator that is *plain* (see `relay.device.plan`): a third of the time of the general one.

A test of thousands of tiny operators spends nearly all its time here, so this is written for speed: what a policy says
of the operator and what a kernel costs are remembered by sizes and dtypes (`Policy.costs`), and `cpu_alias` and `adopt`
are written out for what they nearly always meet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from relay.device import numerics
from relay.device.errors import UnsupportedDtype
from relay.device.memory import (
    CAPSULE,
    CPU_KEYS,
    DL_CPU,
    DL_EXT,
    EXPORT,
    IMPORT,
    WORDS,
    adopt,
    check_result,
    device_alias,
    raise_if_out_of_memory,
    refuse_layout,
)
from relay.device.meter import METER, Cost, Memo
from relay.device.plan import Kernel, Plan
from relay.device.policy import CURRENT

General = Callable[[tuple[Any, ...], dict[str, Any]], Any]
_Tensor = torch.Tensor
_strided = torch.strided
_NUMBERS = (bool, int, float, complex)
_same_memory = torch._C._is_alias_of


def kernel_for(plan: Plan, general: General) -> Kernel:
    """The kernel of a plain operator, to be registered. ``general`` is the long way."""
    return _several(plan, general) if plan.several else _single(plan, general)


def _single(plan: Plan, general: General) -> Kernel:
    all_tensors, writes_first = plan.tensors, plan.writes_first
    resolved, names_device = plan.resolved, plan.names_device
    add = METER.add

    def kernel(*args: Any, **kwargs: Any) -> Any:
        costs = CURRENT.costs.get(plan)
        if costs is None or (kwargs and names_device):
            return general(args, kwargs)
        seen: list[Any] = []
        key: tuple[Any, ...] = ()
        tensors = 0
        for value in args:
            if isinstance(value, _Tensor):
                tensors += 1
                try:
                    capsule = EXPORT(value)
                except (BufferError, RuntimeError):
                    return general(args, kwargs)
                device = (WORDS[(id(capsule) + CAPSULE) >> 3] + 8) >> 3
                if WORDS[device] == DL_EXT:
                    if not resolved and (value.is_conj() or value.is_neg()):
                        return general(args, kwargs)
                    WORDS[device] = DL_CPU
                    seen.append(IMPORT(capsule))
                    key += (value.shape, value.dtype)
                elif value.is_cpu and key and not value.dim():
                    seen.append(value)
                else:
                    return general(args, kwargs)
            else:
                seen.append(value)
        call = plan.call
        if tensors != all_tensors:  # a number in a tensor's place (see `fallback`), or a tensor left out
            for i in plan.tensor_at:
                if i < len(args) and isinstance(args[i], _NUMBERS):
                    if i != 1 or plan.scalar_call is None:
                        return general(args, kwargs)
                    call = plan.scalar_call
        if not key:
            return general(args, kwargs)
        if writes_first and len(key) > 2 and _overlap(args):
            return general(args, kwargs)
        try:
            result = call(CPU_KEYS, *seen, **kwargs)
        except RuntimeError as error:
            raise_if_out_of_memory(error)
            raise
        if not writes_first:
            for given, alias in zip(args, seen, strict=True):
                if alias is result:
                    add(_cost(plan, costs, key, args, given))
                    return given
            key += (result.shape, result.dtype)
        cost = costs.get(key)
        if cost is None:
            cost = _cost(plan, costs, key, args, args[0] if writes_first else result)
        if writes_first:
            add(cost)
            return args[0]
        if result.is_conj() or result.is_neg():
            out = adopt(result)
        else:
            try:
                capsule = EXPORT(result)
            except (BufferError, RuntimeError):
                out = _adopted(plan, result)
            else:
                WORDS[(WORDS[(id(capsule) + CAPSULE) >> 3] + 8) >> 3] = DL_EXT
                out = IMPORT(capsule)
        add(cost)
        return out

    return kernel


def _several(plan: Plan, general: General) -> Kernel:
    """Of an operator with lists of tensors, or with several results: less is written out."""
    writes_first, names_device = plan.writes_first, plan.names_device

    def kernel(*args: Any, **kwargs: Any) -> Any:
        costs = CURRENT.costs.get(plan)
        if costs is None or (kwargs and names_device):
            return general(args, kwargs)
        inputs: list[torch.Tensor] = []
        aliases: list[torch.Tensor] = []
        try:
            seen = [_seen(value, inputs, aliases) for value in args]
        except _LongWay:
            return general(args, kwargs)
        if not inputs or any(i < len(args) and isinstance(args[i], _NUMBERS) for i in plan.tensor_at):
            return general(args, kwargs)
        if writes_first and (inputs[0] is not args[0] or _overlap(inputs)):
            return general(args, kwargs)
        try:
            result = plan.call(CPU_KEYS, *seen, **kwargs)
        except RuntimeError as error:
            raise_if_out_of_memory(error)
            raise
        if writes_first:
            outputs = [args[0]]
        else:
            results = (result,) if isinstance(result, _Tensor) else result
            outputs = [None if r is None else _given(plan, r, inputs, aliases) for r in results]
        made = [out for out in outputs if out is not None]
        key = tuple([part for tensor in (*inputs, *made) for part in (tensor.shape, tensor.dtype)])
        cost = costs.get(key)
        if cost is None:
            cost = costs.keep(key, METER.cost(inputs, made))
        METER.add(cost)
        if writes_first or isinstance(result, _Tensor):
            return outputs[0]
        return outputs if type(result) is list else tuple(outputs)

    return kernel


class _LongWay(Exception):
    """An argument that the short way does not know."""


def _seen(value: Any, inputs: list[torch.Tensor], aliases: list[torch.Tensor]) -> Any:
    """An argument as the CPU kernel is to see it; tensors of the device and their aliases are added to the lists."""
    if isinstance(value, _Tensor):
        alias = device_alias(value)
        if alias is not None:
            inputs.append(value)
            aliases.append(alias)
            return alias
        if value.is_cpu and not value.dim() and inputs:
            return value
        raise _LongWay
    if type(value) is list and value:
        return [_seen(one, inputs, aliases) for one in value]
    return value


def _given(plan: Plan, result: Any, inputs: list[torch.Tensor], aliases: list[torch.Tensor]) -> Any:
    """A result as the caller is to see it."""
    if isinstance(result, list | tuple):
        return [_given(plan, one, inputs, aliases) for one in result]
    for given, alias in zip(inputs, aliases, strict=True):
        if alias is result:
            return given
    try:
        return _adopted(plan, result)
    except UnsupportedDtype:
        METER.refused("refused_dtypes")
        raise


def remember(plan: Plan) -> None:
    """Let the operator go the short way from now on, under the policy in force, which was found to serve it."""
    if not CURRENT.one_way:
        CURRENT.costs[plan] = METER.memo()


def _overlap(args: Sequence[Any]) -> bool:
    """Whether another tensor may lie in the memory of the first, which is written."""
    return any(isinstance(other, _Tensor) and _same_memory(args[0], other) for other in args[1:])


def _cost(plan: Plan, costs: Memo, key: tuple[Any, ...], args: Sequence[Any], result: torch.Tensor) -> Cost:
    """The cost of a kernel that ran for the first time over these sizes and dtypes; what the policy has against its
    result is said here, for an equal one has been let through."""
    try:
        check_result(result)
    except UnsupportedDtype:
        METER.refused("refused_dtypes")
        raise
    inputs = [value for value in args if isinstance(value, _Tensor) and not value.is_cpu]
    macs = numerics.multiply_adds(plan.name, inputs, (result,)) if plan.multiplies else 0
    return costs.keep(key, METER.cost(inputs, (result,), macs))


def _adopted(plan: Plan, result: torch.Tensor) -> torch.Tensor:
    if result.layout is not _strided or result.is_quantized:
        refuse_layout(result, plan.qualified())
    return adopt(result)
