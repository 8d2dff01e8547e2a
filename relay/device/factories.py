"""Factories in one trip. torch serves them as memory from the device, then an operator that writes to it: two trips.

What the policy says of that operator (`Way.writer`), and what the meter counts for it, is what it says and counts of
the factory. Until the operator was served, which is when it has costs to remember, and for large memory, of which the
device has to be asked before it is made, a factory is torch's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from relay.device.dlpack import DL_DTYPES
from relay.device.labels import NOT_LENT, Labels, lent
from relay.device.memory import NAME, STRIDED, check_result, is_device, kept
from relay.device.meter import METER
from relay.device.plain import cost_of
from relay.device.plan import Kernel, overload, plan_of
from relay.device.policy import CURRENT, Policy
from relay.device.words import CPU, CPU_KEYS, TORCHS_OWN_KEYS

_MOST = 1 << 16
"""Elements that a factory makes in one trip."""
# What the writer itself was found to cost says nothing of whether memory may be made: it may be given what another
# policy let through.
_FACTORY = "made"


@dataclass(frozen=True, slots=True)
class Way:
    """How a factory is served: the operator that writes its elements; how many these are, from the arguments; whether
    the first of them is a tensor; whether the memory that torch asks for has no elements, but grows; whether numbers
    are drawn, and of which dtype if none is named (None: the default one)."""

    writer: str
    elements: Callable[..., float]
    like: bool = False
    grows: bool = False
    draws: bool = False
    drawn: torch.dtype | None = None


def _by_size(at: int) -> Callable[..., float]:
    def elements(*args: Any) -> float:
        extents: list[int] = args[at]
        return math.prod(extents)  # exact: as a float it may be out of range

    return elements


def _by_range(*ends: float) -> float:
    start, end, step = (0, *ends, 1) if len(ends) == 1 else (*ends, 1)[:3]
    return abs((end - start) / step) if step else math.inf


def _as_many(tensor: torch.Tensor, *rest: Any) -> float:
    return int(tensor.numel())


def _one(*args: Any) -> float:
    return 1


def _all_of(*args: Any) -> float:
    number: float = args[0]
    return number


_RANGE = Way("arange.start_out", _by_range, grows=True)
_WAYS: dict[str, Way] = {
    "zeros": Way("zero_", _by_size(0)),
    "ones": Way("fill_.Scalar", _by_size(0)),
    "full": Way("fill_.Scalar", _by_size(0)),
    "scalar_tensor": Way("fill_.Scalar", _one),
    "rand": Way("uniform_", _by_size(0), draws=True),
    "randn": Way("normal_", _by_size(0), draws=True),
    "randint": Way("random_.from", _by_size(1), draws=True, drawn=torch.int64),
    "randint.low": Way("random_.from", _by_size(2), draws=True, drawn=torch.int64),
    "randperm": Way("randperm.generator_out", _all_of, draws=True, drawn=torch.int64),
    "arange": _RANGE,
    "arange.start": _RANGE,
    "arange.start_step": _RANGE,
    "zeros_like": Way("zero_", _as_many, like=True),
    "ones_like": Way("fill_.Scalar", _as_many, like=True),
    "full_like": Way("fill_.Scalar", _as_many, like=True),
    "rand_like": Way("uniform_", _as_many, like=True, draws=True),
    "randn_like": Way("normal_", _as_many, like=True, draws=True),
    "new_zeros": Way("zero_", _by_size(1), like=True),
    "new_ones": Way("fill_.Scalar", _by_size(1), like=True),
    "new_full": Way("fill_.Scalar", _by_size(1), like=True),
}


def _may_be(policy: Policy, dtype: torch.dtype, elements: float) -> bool:
    """Whether such a tensor was let through before: what is refused is so before anything is drawn."""
    known = policy.dtypes is None or policy.knows(dtype)
    return known and (policy.memory_bytes is None or elements * dtype.itemsize <= policy.memory_bytes)


def kernels(labels: Labels | None) -> dict[str, Kernel]:
    """To be registered for PrivateUse1, by name."""
    return {name: _kernel(name, way, labels) for name, way in _WAYS.items()}


def _kernel(name: str, way: Way, labels: Labels | None) -> Kernel:
    make: Kernel = overload(name)._handle.redispatch_boxed
    plan = plan_of(overload(way.writer))
    elements, like, grows, draws, drawn = way.elements, way.like, way.grows, way.draws, way.drawn

    def kernel(*args: Any, device: torch.device | None = None, layout: Any = None, **options: Any) -> torch.Tensor:
        costs = CURRENT.costs.get(plan)
        policy = CURRENT.policy
        limited = policy.dtypes is not None or policy.memory_bytes is not None
        if (
            costs is None
            or layout not in STRIDED
            or (like and not (is_device(args[0]) and (device is None or device.type == NAME)))
            or not (count := elements(*args)) <= _MOST
            or options.get("pin_memory")
            or (limited and draws and not _may_be(policy, dtype_of(args, options), count))
        ):
            return torchs_own(*args, device=device, layout=layout, **options)
        try:
            if like:
                made = lent(labels, make, *args, device=CPU, **options)
                if made is NOT_LENT:
                    return torchs_own(*args, device=device, layout=layout, **options)
            else:
                made = make(CPU_KEYS, *args, device=CPU, **options)
            key = (made.shape, made.dtype, _FACTORY)
            cost = costs.get(key)
            if cost is None:
                check_result(made)
                cost = cost_of(plan, costs, key, (made,), (made,))
        except (RuntimeError, ValueError, TypeError, IndexError):
            # Torch's own says so, of the device, and after it asked for the memory that the meter counts.
            return torchs_own(*args, device=device, layout=layout, **options)
        out = kept(made)
        if out is made or made.dtype in DL_DTYPES:
            METER.made(cost, 0 if grows else made.nbytes)
        else:
            METER.add(cost)  # the device was asked for memory, and counted it
        return out

    def torchs_own(*args: Any, **options: Any) -> torch.Tensor:
        own: torch.Tensor = make(TORCHS_OWN_KEYS, *args, **options)
        return own

    def dtype_of(args: tuple[Any, ...], options: dict[str, Any]) -> torch.dtype:
        dtype: torch.dtype = options.get("dtype") or (args[0].dtype if like else drawn or torch.get_default_dtype())
        return dtype

    return kernel
