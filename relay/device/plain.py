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
NUMBERS = (bool, int, float, complex)
_same_memory = torch._C._is_alias_of


def kernel_for(plan: Plan, general: General) -> Kernel:
    """The kernel of a plain operator, to be registered. ``general`` is the long way."""
    several = _several(plan, general)
    if plan.several or plan.tensor_at not in ([0], [0, 1]):
        return several
    return _one(plan, general, several) if plan.tensors == 1 else _two(plan, general, several)


def _one(plan: Plan, general: General, several: Kernel) -> Kernel:
    """Of an operator whose first argument is its only tensor. ``several`` takes what is not as simple as that."""
    call, writes_first, names_device = plan.call, plan.writes_first, plan.names_device
    resolved, physical = plan.resolved, plan.physical
    add = METER.add

    def kernel(first: Any, *rest: Any, **kwargs: Any) -> Any:
        costs = CURRENT.costs.get(plan)
        if costs is None or (kwargs and names_device):
            return general((first, *rest), kwargs)
        try:
            capsule = EXPORT(first)
        except (BufferError, RuntimeError, TypeError):
            return several(first, *rest, **kwargs)
        device = (WORDS[(id(capsule) + CAPSULE) >> 3] + 8) >> 3
        if WORDS[device] != DL_EXT or not (resolved or _physical(first)):
            return several(first, *rest, **kwargs)
        WORDS[device] = DL_CPU
        alias = IMPORT(capsule)
        try:
            result = call(CPU_KEYS, alias, *rest, **kwargs)
        except RuntimeError as error:
            raise_if_out_of_memory(error)
            raise
        if writes_first or result is alias:
            key: tuple[Any, ...] = (first.shape, first.dtype)
            add(costs.get(key) or cost_of(plan, costs, key, (first,), (first,)))
            return first
        key = (first.shape, first.dtype, result.shape, result.dtype)
        cost = costs.get(key) or _cost_of_new(plan, costs, key, (first,), result)
        out = _handed_out(plan, result, physical)
        add(cost)
        return out

    return kernel


def _two(plan: Plan, general: General, several: Kernel) -> Kernel:
    """Of an operator whose first two arguments are its only tensors: as `_one`; the second may be a number."""
    both, scalar, writes_first, names_device = plan.call, plan.scalar_call, plan.writes_first, plan.names_device
    resolved, physical = plan.resolved, plan.physical
    add = METER.add

    def kernel(*args: Any, **kwargs: Any) -> Any:
        costs = CURRENT.costs.get(plan)
        if costs is None or (kwargs and names_device) or len(args) < 2:
            return general(args, kwargs)
        first, second, *rest = args
        try:
            capsule = EXPORT(first)
        except (BufferError, RuntimeError, TypeError):
            return several(*args, **kwargs)
        device = (WORDS[(id(capsule) + CAPSULE) >> 3] + 8) >> 3
        if WORDS[device] != DL_EXT or not (resolved or _physical(first)):
            return several(*args, **kwargs)
        WORDS[device] = DL_CPU
        alias = IMPORT(capsule)
        if isinstance(second, _Tensor):
            try:
                capsule = EXPORT(second)
            except (BufferError, RuntimeError):
                return several(*args, **kwargs)
            device = (WORDS[(id(capsule) + CAPSULE) >> 3] + 8) >> 3
            if WORDS[device] != DL_EXT or not (resolved or _physical(second)):
                return several(*args, **kwargs)
            if writes_first and _same_memory(first, second):
                return general(args, kwargs)
            WORDS[device] = DL_CPU
            call, other = both, IMPORT(capsule)
            inputs: tuple[torch.Tensor, ...] = (first, second)
            key: tuple[Any, ...] = (first.shape, first.dtype, second.shape, second.dtype)
        elif scalar is not None and isinstance(second, NUMBERS):
            call, inputs, other, key = scalar, (first,), second, (first.shape, first.dtype)
        else:
            return several(*args, **kwargs)
        try:
            result = call(CPU_KEYS, alias, other, *rest, **kwargs)
        except RuntimeError as error:
            raise_if_out_of_memory(error)
            raise
        if writes_first or result is alias or result is other:
            given = second if result is other else first
            key = (*key, writes_first, result is other)
            add(costs.get(key) or cost_of(plan, costs, key, inputs, (given,)))
            return given
        key = (*key, result.shape, result.dtype)
        cost = costs.get(key) or _cost_of_new(plan, costs, key, inputs, result)
        out = _handed_out(plan, result, physical)
        add(cost)
        return out

    return kernel


def _physical(tensor: torch.Tensor) -> bool:
    """Whether the memory holds the tensor's values as they are."""
    return not (tensor.is_conj() or tensor.is_neg())


def _handed_out(plan: Plan, result: torch.Tensor, physical: bool) -> torch.Tensor:
    """A new result as the caller is to see it; what the policy has against it was said (`_cost_of_new`)."""
    if not physical and not _physical(result):
        return adopt(result)
    try:
        capsule = EXPORT(result)
    except (BufferError, RuntimeError):
        return _adopted(plan, result)
    WORDS[(WORDS[(id(capsule) + CAPSULE) >> 3] + 8) >> 3] = DL_EXT
    return IMPORT(capsule)


def _several(plan: Plan, general: General) -> Kernel:
    """Of any other operator, with lists of tensors and several results, too: less is written out."""
    call, writes_first, names_device, physical = plan.call, plan.writes_first, plan.names_device, plan.physical
    tensor_at = plan.tensor_at

    def kernel(*args: Any, **kwargs: Any) -> Any:
        costs = CURRENT.costs.get(plan)
        if costs is None or (kwargs and names_device):
            return general(args, kwargs)
        inputs: list[torch.Tensor] = []
        aliases: list[torch.Tensor] = []
        try:
            seen = [seen_by_cpu(value, inputs, aliases) for value in args]
        except LongWay:
            return general(args, kwargs)
        for i in tensor_at:
            if i < len(args) and isinstance(args[i], NUMBERS):
                return general(args, kwargs)
        if not inputs:
            return general(args, kwargs)
        if writes_first and (inputs[0] is not args[0] or _overlap(inputs)):
            return general(args, kwargs)
        try:
            result = call(CPU_KEYS, *seen, **kwargs)
        except RuntimeError as error:
            raise_if_out_of_memory(error)
            raise
        key: tuple[Any, ...] = ()
        for tensor in inputs:
            key += (tensor.shape, tensor.dtype)
        alone = isinstance(result, _Tensor)
        if alone and not writes_first and id(result) not in map(id, aliases):
            key += (result.shape, result.dtype)
            cost = costs.get(key) or _cost_of_new(plan, costs, key, inputs, result)
            out = _handed_out(plan, result, physical)
            METER.add(cost)
            return out
        if writes_first:
            outputs = [args[0]]
        else:
            results = (result,) if alone else result
            outputs = [None if r is None else _given(plan, r, inputs, aliases) for r in results]
        made = [out for out in outputs if out is not None]
        for tensor in made:
            key += (tensor.shape, tensor.dtype)
        METER.add(costs.get(key) or cost_of(plan, costs, key, inputs, made))
        if alone:
            return outputs[0]
        return outputs if type(result) is list else tuple(outputs)

    return kernel


class LongWay(Exception):
    """An argument that the short way does not know."""


def seen_by_cpu(value: Any, inputs: list[torch.Tensor], aliases: list[torch.Tensor]) -> Any:
    """An argument as the CPU kernel is to see it; tensors of the device and their aliases are added to the lists."""
    if isinstance(value, _Tensor):
        alias = device_alias(value)
        if alias is not None:
            inputs.append(value)
            aliases.append(alias)
            return alias
        if value.is_cpu and not value.dim() and inputs:
            return value
        raise LongWay
    if type(value) is list and value:
        return [seen_by_cpu(one, inputs, aliases) for one in value]
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


def cost_of(
    plan: Plan, costs: Memo, key: tuple[Any, ...], inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]
) -> Cost:
    """The cost of a kernel that ran for the first time over these sizes and dtypes."""
    macs = numerics.multiply_adds(plan.name, inputs, outputs) if plan.multiplies else 0
    return costs.keep(key, METER.cost(inputs, outputs, macs))


def _cost_of_new(
    plan: Plan, costs: Memo, key: tuple[Any, ...], inputs: Sequence[torch.Tensor], result: torch.Tensor
) -> Cost:
    """`cost_of`; what the policy has against the result is said here, for an equal one has been let through."""
    try:
        check_result(result)
    except UnsupportedDtype:
        METER.refused("refused_dtypes")
        raise
    return cost_of(plan, costs, key, inputs, (result,))


def _adopted(plan: Plan, result: torch.Tensor) -> torch.Tensor:
    if result.layout is not _strided or result.is_quantized:
        refuse_layout(result, plan.qualified())
    return adopt(result)
