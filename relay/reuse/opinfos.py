"""Which operator of the device an OpInfo comes down to: asked at run time, and written down with the op database."""

from __future__ import annotations

import functools
from typing import Any

import torch


def aten_name(op: Any) -> str:
    """The base name of the aten operator behind an OpInfo (``linalg_norm``, ``gelu``), as nearly as OpInfo tells."""
    return _aten(str(op.aten_name or op.name))


@functools.cache
def _aten(told: str) -> str:
    told = told.removeprefix("_refs.")
    spellings = (told.replace(".", "_"), told.rpartition(".")[2])
    return next((name for name in spellings if hasattr(torch.ops.aten, name)), spellings[1])


def composite(op: Any) -> bool:
    """Whether the op runs as other operators on every device: a Python reference, or one torch takes apart itself."""
    return op.name.startswith("_refs.") or _taken_apart(aten_name(op))


@functools.cache
def _taken_apart(aten: str) -> bool:
    packet = getattr(torch.ops.aten, aten, None)
    if packet is None:
        return True  # no such operator: the function is made of others
    names = [packet._qualified_op_name + _dotted(overload) for overload in packet.overloads()]
    # TorchScript's own overloads (aten::add.t, of lists) are unknown to the dispatcher
    known = [name for name in names if torch._C._dispatch_has_kernel(name)]
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(name, COMPOSITE) for name in known)


COMPOSITE = "CompositeImplicitAutograd"


def _dotted(overload: str) -> str:
    return "" if overload == "default" else f".{overload}"
