"""The one kernel behind every operator: see device arguments as CPU tensors, run the CPU kernel, hand its results back.

It is registered as PrivateUse1's boxed fallback, and directly for each *structured* operator. Left alone, a structured
operator takes three trips (its meta function, our ``empty``, then its ``.out`` form): ten times slower, and its
warnings come twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from relay.device import numerics, plain, written
from relay.device.errors import UnsupportedDtype
from relay.device.labels import FOUND
from relay.device.memory import (
    NAME,
    adopt,
    alias_within,
    cpu_alias,
    device_alias,
    host_view,
    is_device,
    refuse_layout,
    shared,
    view_like,
)
from relay.device.meter import METER
from relay.device.plan import Kernel, Plan, by_its_kernel, overload, plan_of
from relay.device.policy import CURRENT, Verdict
from relay.device.shortage import raise_if_out_of_memory
from relay.device.words import CPU, CPU_KEYS

_Tensor = torch.Tensor
_strided = torch.strided
_NUMBERS = (bool, int, float, complex)


class Call:
    """One run of one operator: its device arguments, and the CPU aliases they were seen through."""

    __slots__ = ("aliases", "host_tensor", "inputs", "memories", "outputs", "plan", "shared", "wants_device")

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.inputs: list[torch.Tensor] = []
        self.outputs: list[torch.Tensor] = []
        self.aliases: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # id(alias) -> (device tensor, alias)
        self.host_tensor = False
        self.wants_device = False
        self.shared: frozenset[int] = frozenset()
        self.memories: dict[int, torch.UntypedStorage] = {}  # storages in ``shared``, as the CPU kernel sees them

    def to_cpu(self, value: Any) -> Any:
        """An argument as the CPU kernel is to see it."""
        if isinstance(value, _Tensor):
            if value.is_cpu:
                if value.dim():
                    self.host_tensor = True
                return value
            alias = device_alias(value)
            if alias is None:
                if is_device(value):  # but not strided
                    refuse_layout(value, self.plan.qualified())
                return value
            if self.shared and value.untyped_storage()._cdata in self.shared:
                alias = self._within(value)
            self.aliases[id(alias)] = (value, alias)
            self.inputs.append(value)
            self.wants_device = True
            return alias
        if isinstance(value, list | tuple) and value and not isinstance(value, torch.Size):
            converted = [self.to_cpu(v) for v in value]
            return tuple(converted) if type(value) is tuple else converted
        if isinstance(value, torch.device) and value.type == NAME:
            self.wants_device = True
            return CPU
        return value

    def _within(self, value: torch.Tensor) -> torch.Tensor:
        storage = value.untyped_storage()
        memory = self.memories.get(storage._cdata)
        if memory is None:
            memory = self.memories[storage._cdata] = host_view(storage)
        return alias_within(memory, value)

    def to_device(self, value: Any) -> Any:
        """A result as the caller is to see it: the same argument, a view of one, or an adopted tensor."""
        if isinstance(value, _Tensor):
            known = self.aliases.get(id(value))
            if known is not None:
                device, alias = known
                written.follow(device, alias)
                self.outputs.append(device)
                return device
            if not self.wants_device or not value.is_cpu:
                return value
            out = self._view(value) if self.plan.views else None
            if out is None:
                if value.layout is not _strided or value.is_quantized:
                    refuse_layout(value, self.plan.qualified())
                out = adopt(value)
            self.outputs.append(out)
            return out
        if isinstance(value, list | tuple):
            converted = [self.to_device(v) for v in value]
            return tuple(converted) if type(value) is tuple else converted
        return value

    def _view(self, value: torch.Tensor) -> torch.Tensor | None:
        """The device's view, if ``value`` lies in an argument's memory."""
        if value.layout is not _strided:
            return None
        where = value.untyped_storage().data_ptr()
        for device, alias in self.aliases.values():
            if alias.untyped_storage().data_ptr() == where:
                return view_like(device, alias, value)
        return None


def device_tensors(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    """The strided tensors of this device among arguments, those in lists too."""
    for value in values:
        if isinstance(value, _Tensor):
            if is_device(value) and value.layout is _strided:
                yield value
        elif isinstance(value, list | tuple):
            yield from device_tensors(value)


def fallback(op: Any, *args: Any, **kwargs: Any) -> Any:
    """The boxed fallback of PrivateUse1."""
    plan = plan_of(op)
    return (plan.kernel or _made(plan))(*args, **kwargs)


def kernel_for(op: Any) -> Kernel:
    """`run` bound to one operator, to be registered for it directly."""
    return _made(plan_of(op))


def prepare() -> None:
    """Make the kernels of all operators of torch's that come here, which each first call would make else."""
    for full in torch._C._dispatch_get_all_op_names():
        name = full.removeprefix("aten::")
        if name != full and by_its_kernel(full):
            plan = plan_of(overload(name))
            if plan.kernel is None:
                _made(plan)


def _made(plan: Plan) -> Kernel:
    def general(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return run(plan, args, kwargs)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        return run(plan, args, kwargs)

    plan.kernel = kernel
    labels = FOUND.labels
    if not plan.op._schema.name.startswith("aten::"):
        labels = None  # its kernel for the CPU may be one of Python, which would see what is lent
    if labels is not None and plan.plain:
        plan.kernel = plain.kernel_for(plan, general, labels)
    elif labels is not None and plan.writes_out:
        plan.kernel = written.kernel_for(plan, general, labels)
    return plan.kernel


def run(plan: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run an operator with device arguments (or a device asked for) on the CPU's kernel, under the policy in force."""
    policy = CURRENT.policy
    verdict = plan.admit(policy) if policy.ops is not None or policy.fallback_ops else Verdict.KERNEL
    if (
        (plan.plain or plan.writes_out)
        and verdict is Verdict.KERNEL
        and not policy.changes_numbers
        and plan not in CURRENT.costs
    ):
        plain.remember(plan)
        if plan in CURRENT.costs and plan.kernel is not None:
            return plan.kernel(*args, **kwargs)  # the short way, now that it is known to be open
    call = Call(plan)
    if plan.writes:
        # what is written to may lie over what is read: kernels refuse that, and see it by the storage alone
        call.shared = shared([*device_tensors((*args, *kwargs.values()))])
    cpu_args = [call.to_cpu(a) for a in args]
    cpu_kwargs = {k: call.to_cpu(v) for k, v in kwargs.items()} if kwargs else kwargs
    for name in plan.outs:
        out = kwargs.get(name)
        if not isinstance(out, _Tensor):
            continue
        if out.is_cpu:
            call.host_tensor = True  # a scalar of the host may be read with every device's tensors, but not written
        elif is_device(out) and not call.shared and (alias := written.stand_in(out)) is not None:
            cpu_kwargs[name] = alias
            call.aliases[id(alias)] = (out, alias)
    if call.host_tensor and call.inputs and not plan.host_tensors_ok:
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, {NAME}:0 and cpu! "
            f"(when running aten::{plan.name})"
        )
    try:
        out = call.to_device(_execute(plan, call, cpu_args, cpu_kwargs))
    except UnsupportedDtype:
        METER.refused("refused_dtypes")
        raise
    if policy.changes_numbers:
        for tensor in call.outputs:
            numerics.apply(policy, cpu_alias(tensor))
    if verdict is Verdict.FALLBACK:
        METER.fallback()
        METER.transfer("d2h_bytes", sum(t.numel() * t.element_size() for t in call.inputs))
        METER.transfer("h2d_bytes", sum(t.numel() * t.element_size() for t in call.outputs))
    else:
        METER.kernel(call.inputs, call.outputs, numerics.multiply_adds(plan.name, call.inputs, call.outputs))
    return out


def _execute(plan: Plan, call: Call, args: list[Any], kwargs: dict[str, Any]) -> Any:
    kernel = _kernel_of(plan, args)
    try:
        return kernel(args, kwargs)
    except RuntimeError as error:
        if "not resizable" not in str(error):
            raise_if_out_of_memory(error)
            raise
    return _execute_growing(plan, kernel, call, args, kwargs)


def _kernel_of(plan: Plan, args: list[Any]) -> Callable[[list[Any], dict[str, Any]], Any]:
    """The CPU's kernel for these arguments, to be called with them.

    A number that torch wrapped into a tensor reaches a Python kernel as a plain number, which the Tensor overload
    refuses; the packet finds the Scalar overload, and with it the right type promotion.
    """
    for i in plan.tensor_at:
        if i < len(args) and isinstance(args[i], _NUMBERS):
            if i == 1 and plan.outs and (boxed := _boxed(args[0], args[1])) is not None:
                return lambda args, kwargs: plan.call(CPU_KEYS, args[0], boxed, *args[2:], **kwargs)
            scalar = plan.scalar_call
            if i == 1 and scalar is not None and not isinstance(args[0], _NUMBERS):
                return lambda args, kwargs: scalar(CPU_KEYS, *args, **kwargs)
            return lambda args, kwargs: plan.op.overloadpacket(*args, **kwargs)
    return lambda args, kwargs: plan.call(CPU_KEYS, *args, **kwargs)


def _boxed(beside: Any, number: Any) -> torch.Tensor | None:
    """The number as a tensor that promotes as it does beside this one, or None where none does. What the packet finds
    for an ``out=`` is a copy of a result: it picks strides of its own, takes one dtype and sees no overlap."""
    if not isinstance(beside, _Tensor):
        return None
    dtype = torch.bool if isinstance(number, bool) else torch.result_type(beside, number)
    if beside.dim() and dtype == beside.dtype and dtype is not torch.bool:
        # the tensor's dtype wins, and the number keeps all its digits
        wide = torch.complex128 if dtype.is_complex else torch.float64 if dtype.is_floating_point else torch.int64
        dtype = wide
    try:
        return torch.tensor(number, dtype=dtype)
    except (RuntimeError, OverflowError):  # beyond an integer's range, which kernels say in their own words
        return None


def _execute_growing(
    plan: Plan, kernel: Callable[[list[Any], dict[str, Any]], Any], call: Call, args: list[Any], kwargs: dict[str, Any]
) -> Any:
    """An ``out=`` argument must grow, and a borrowed memory cannot: write to tensors of the CPU's own instead."""

    def own(value: Any, argument: Any) -> Any:
        if isinstance(value, list | tuple):
            return [own(v, argument) for v in value]
        is_written = argument.alias_info is not None and argument.alias_info.is_write
        if not (is_written and isinstance(value, _Tensor) and id(value) in call.aliases):
            return value
        device = call.aliases[id(value)][0]
        if value.shape != device.shape and device.numel():
            # This is the one that grew. Its new sizes reach beyond its memory, so there is nothing to read; kernels
            # choose the strides of one without elements, and warn of none.
            copy = torch.empty(0, dtype=value.dtype)
        elif not device.numel():
            copy = torch.empty_strided(device.size(), device.stride(), dtype=device.dtype)
        else:
            copy = torch.empty_strided(device.size(), device.stride(), dtype=device.dtype)
            copy.copy_(value)
        call.aliases[id(copy)] = (device, copy)
        return copy

    schema = plan.op._schema.arguments
    by_name = {a.name: a for a in schema}
    args = [own(value, schema[i]) for i, value in enumerate(args)]
    kwargs = {k: own(v, by_name[k]) for k, v in kwargs.items()}
    return kernel(args, kwargs)
