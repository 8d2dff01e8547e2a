"""Kernels of the emulated device that go wrong: the stand-in for faults in native code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from relay.device import fallback, plan, policy
from relay.device.plan import Kernel, Plan


def break_kernel(op: str, kind: str) -> int:
    """Every kernel of the operator (any overload, in place too) gives a wrong result from now on. Returns how many
    there are, at least 1: those that are planned later go wrong as well."""
    make = Plan.__init__

    def broken_init(self: Plan, overload: Any) -> None:
        make(self, overload)
        _break(self, op, kind)

    setattr(Plan, "__init__", broken_init)  # noqa: B010 - mypy knows methods, not what may be put in their place
    policy.take_one_way()  # the short ways have the CPU's kernels by heart
    return max(1, sum(_break(known, op, kind) for known in plan._plans.values()))


def record_ops(hit: Callable[[str], None]) -> None:
    """From now on ``hit`` is told the base name of every operator that runs on the device."""
    general = fallback.run

    def run(known: Plan, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        hit(base_name(known.name))
        return general(known, args, kwargs)

    setattr(fallback, "run", run)  # noqa: B010 - kernels look it up when they are called
    policy.take_one_way()


def base_name(name: str) -> str:
    return name if name.startswith("__") else name.rstrip("_")


def _break(known: Plan, op: str, kind: str) -> bool:
    if base_name(known.name) != op or known.views:
        return False
    known.call = _broken(known.call, kind)
    if known.scalar_call is not None:
        known.scalar_call = _broken(known.scalar_call, kind)
    return True


def _broken(call: Kernel, kind: str) -> Kernel:
    def kernel(keys: Any, *args: Any, **kwargs: Any) -> Any:
        strided = any(isinstance(a, torch.Tensor) and not a.is_contiguous() for a in args)
        out = call(keys, *args, **kwargs)
        for tensor in out if isinstance(out, (list, tuple)) else (out,):
            if isinstance(tensor, torch.Tensor) and tensor.numel() and tensor.layout is torch.strided:
                with torch.no_grad():
                    _spoil(tensor.detach(), kind, strided)
        return out

    return kernel


def _spoil(out: torch.Tensor, kind: str, strided: bool) -> None:
    """Changes a result in place, as the fault's kind says."""
    if kind == "native-half" and out.dtype not in (torch.float16, torch.bfloat16):
        return
    if kind == "native-strided" and not strided:
        return
    if kind == "native-first":
        out = out.as_strided((1,), (1,))
    if kind == "native-zero":
        out.zero_()
    elif out.dtype is torch.bool:
        out.logical_not_()
    elif kind == "native-scale":
        out.mul_(2)
    else:
        out.add_(1)
