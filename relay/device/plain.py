"""The short way through an operator that is *plain* (see `relay.device.plan`): a third of the time of the general one.

A test of thousands of tiny operators spends nearly all its time here, so this is written for speed: what a policy says
of the operator and what a kernel costs are remembered by sizes and dtypes (`Policy.costs`), and lending
and keeping (`relay.device.labels`) are written out for what they nearly always meet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from relay.device import numerics
from relay.device.errors import UnsupportedDtype
from relay.device.labels import FOUND, SET, Labels, Loans, others
from relay.device.memory import adopt, check_result, refuse_layout
from relay.device.meter import METER, Cost, Memo
from relay.device.plan import Kernel, Plan
from relay.device.policy import CURRENT
from relay.device.shortage import raise_if_out_of_memory
from relay.device.words import CPU_KEYS, SHORTS, WORDS

General = Callable[[tuple[Any, ...], dict[str, Any]], Any]
_Tensor = torch.Tensor
_strided = torch.strided
NUMBERS = (bool, int, float, complex)


def kernel_for(plan: Plan, general: General, labels: Labels) -> Kernel:
    """The kernel of a plain operator, to be registered. ``general`` is the long way."""
    several = _several(plan, general, labels)
    if plan.several or plan.tensor_at not in ([0], [0, 1]):
        return several
    return _one(plan, general, several, labels) if plan.tensors == 1 else _two(plan, general, several, labels)


def _one(plan: Plan, general: General, several: Kernel, labels: Labels) -> Kernel:
    """Of an operator whose first argument is its only tensor. ``several`` takes what is not as simple as that."""
    call, writes_first, names_device = plan.call, plan.writes_first, plan.names_device
    at_device, at_keys, to_cpu = labels.device, labels.keys, labels.to_cpu
    at_storage, of_storage, cpu, ours = labels.storage, labels.of_storage, labels.cpu, labels.ours
    add, handed_out = METER.add_alone, _handing_out(plan, labels)

    def kernel(first: Any, *rest: Any, **kwargs: Any) -> Any:
        costs = CURRENT.costs.get(plan)
        if costs is None or others() > FOUND.bystanders or (kwargs and names_device) or not isinstance(first, _Tensor):
            return general((first, *rest), kwargs)
        at = first._cdata >> 3
        device = (at << 2) + at_device
        keys = at + at_keys
        whose = WORDS[keys]
        cpus = to_cpu.get(whose)
        storage = (WORDS[at + at_storage] >> 1) + of_storage
        if cpus is None:
            return several(first, *rest, **kwargs)
        try:
            SHORTS[device] = cpu
            WORDS[keys] = cpus
            SHORTS[storage] = cpu
            result = call(CPU_KEYS, first, *rest, **kwargs)
        except RuntimeError as error:
            raise_if_out_of_memory(error)
            raise
        finally:
            SHORTS[device] = ours
            WORDS[keys] = whose
            SHORTS[storage] = ours
        if writes_first or result is first:
            key: tuple[Any, ...] = (first.shape, first.dtype)
            add(costs.get(key) or cost_of(plan, costs, key, (first,), (first,)))
            return first
        key = (first.shape, first.dtype, result.shape, result.dtype)
        cost = costs.get(key) or _cost_of_new(plan, costs, key, (first,), result)
        out = handed_out(result)
        add(cost)
        return out

    return kernel


def _two(plan: Plan, general: General, several: Kernel, labels: Labels) -> Kernel:
    """Of an operator whose first two arguments are its only tensors: as `_one`; the second may be a number."""
    both, scalar, writes_first, names_device = plan.call, plan.scalar_call, plan.writes_first, plan.names_device
    at_device, at_keys, to_cpu = labels.device, labels.keys, labels.to_cpu
    at_storage, of_storage, cpu, ours = labels.storage, labels.of_storage, labels.cpu, labels.ours
    add, handed_out = METER.add_alone, _handing_out(plan, labels)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        costs = CURRENT.costs.get(plan)
        if costs is None or others() > FOUND.bystanders or (kwargs and names_device) or len(args) < 2:
            return general(args, kwargs)
        first = args[0]
        second = args[1]
        if not isinstance(first, _Tensor):
            return general(args, kwargs)
        at = first._cdata >> 3
        device = (at << 2) + at_device
        keys = at + at_keys
        whose = WORDS[keys]
        cpus = to_cpu.get(whose)
        storage = (WORDS[at + at_storage] >> 1) + of_storage
        if cpus is None:
            return several(*args, **kwargs)
        if isinstance(second, _Tensor):
            at = second._cdata >> 3
            device_2 = (at << 2) + at_device
            keys_2 = at + at_keys
            whose_2 = WORDS[keys_2]
            cpus_2 = to_cpu.get(whose_2)
            storage_2 = (WORDS[at + at_storage] >> 1) + of_storage
            if cpus_2 is None:
                return several(*args, **kwargs)
            call = both
            inputs: tuple[torch.Tensor, ...] = (first, second)
            key: tuple[Any, ...] = (first.shape, first.dtype, second.shape, second.dtype)
        elif scalar is not None and isinstance(second, NUMBERS):
            device_2, keys_2, storage_2, whose_2, cpus_2 = device, keys, storage, whose, cpus
            call, inputs, key = scalar, (first,), (first.shape, first.dtype)
        else:
            return several(*args, **kwargs)
        try:
            SHORTS[device] = cpu
            WORDS[keys] = cpus
            SHORTS[storage] = cpu
            SHORTS[device_2] = cpu
            WORDS[keys_2] = cpus_2
            SHORTS[storage_2] = cpu
            result = call(CPU_KEYS, *args, **kwargs)
        except RuntimeError as error:
            raise_if_out_of_memory(error)
            raise
        finally:
            SHORTS[device] = ours
            WORDS[keys] = whose
            SHORTS[storage] = ours
            SHORTS[device_2] = ours
            WORDS[keys_2] = whose_2
            SHORTS[storage_2] = ours
        if writes_first or result is first or result is second:
            given = second if result is second else first
            key = (*key, writes_first, result is second)
            add(costs.get(key) or cost_of(plan, costs, key, inputs, (given,)))
            return given
        key = (*key, result.shape, result.dtype)
        cost = costs.get(key) or _cost_of_new(plan, costs, key, inputs, result)
        out = handed_out(result)
        add(cost)
        return out

    return kernel


def _handing_out(plan: Plan, labels: Labels) -> Callable[[torch.Tensor], torch.Tensor]:
    """A new result as the caller is to see it; what the policy has against it was said (`_cost_of_new`)."""
    at_device, at_keys, at_storage = labels.device, labels.keys, labels.storage
    to_device, of_storage, count, ours = labels.to_device, labels.of_storage, labels.count, labels.ours

    def handed_out(result: torch.Tensor) -> torch.Tensor:
        at = result._cdata >> 3
        keys = to_device.get(WORDS[at + at_keys])
        storage = WORDS[at + at_storage] >> 3
        if keys is None or WORDS[storage + count] & 0xFFFF_FFFF != 1:
            return _adopted(plan, result)
        SHORTS[(at << 2) + at_device] = ours
        WORDS[at + at_keys] = keys
        SHORTS[(storage << 2) + of_storage] = ours
        return result

    return handed_out


def _several(plan: Plan, general: General, labels: Labels) -> Kernel:
    """Of any other operator, with lists of tensors and several results, too: less is written out."""
    call, writes_first, names_device = plan.call, plan.writes_first, plan.names_device
    numbers_at, find, handed_out = plan.tensor_at, Loans(labels).find, _handing_out(plan, labels)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        costs = CURRENT.costs.get(plan)
        if costs is None or others() > FOUND.bystanders or (kwargs and names_device):
            return general(args, kwargs)
        found = find(args)
        if found is None:
            return general(args, kwargs)
        inputs, key, lend, back = found
        for i in numbers_at:
            if i < len(args) and isinstance(args[i], NUMBERS):
                return general(args, kwargs)
        if writes_first and inputs[0] is not args[0]:
            return general(args, kwargs)
        try:
            SET(lend)
            result = call(CPU_KEYS, *args, **kwargs)
        except RuntimeError as error:
            raise_if_out_of_memory(error)
            raise
        finally:
            SET(back)
        alone = isinstance(result, _Tensor)
        given = set(map(id, inputs))
        if alone and not writes_first and id(result) not in given:
            key += (result.shape, result.dtype)
            cost = costs.get(key) or _cost_of_new(plan, costs, key, inputs, result)
            out = handed_out(result)
            METER.add_alone(cost)
            return out
        if writes_first:
            outputs = [args[0]]
        else:
            results = (result,) if alone else result
            outputs = [None if r is None else _given(handed_out, r, given) for r in results]
        made = [out for out in outputs if out is not None]
        for tensor in made:
            key += (tensor.shape, tensor.dtype)
        METER.add_alone(costs.get(key) or cost_of(plan, costs, key, inputs, made))
        if alone:
            return outputs[0]
        return outputs if type(result) is list else tuple(outputs)

    return kernel


def _given(handed_out: Callable[[torch.Tensor], torch.Tensor], result: Any, inputs: set[int]) -> Any:
    """A result as the caller is to see it; ``inputs``: ids of the arguments."""
    if isinstance(result, list | tuple):
        return [_given(handed_out, one, inputs) for one in result]
    if id(result) in inputs:
        return result
    try:
        check_result(result)
    except UnsupportedDtype:
        METER.refused("refused_dtypes")
        raise
    return handed_out(result)


def remember(plan: Plan) -> None:
    """Let the operator go the short way from now on, under the policy in force, which was found to serve it."""
    if not CURRENT.one_way:
        CURRENT.costs[plan] = METER.memo()


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
