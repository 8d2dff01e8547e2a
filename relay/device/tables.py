"""The dispatcher's tables: giving the device the CPU's own kernel of an operator, as a backend in C++ registers it.

A view only writes sizes and strides. The CPU's kernel of `as_strided` does that for a tensor of any device, and every
view ends there; but torch lets Python register kernels of Python alone, and the way through one, to the CPU's kernel
and back, takes three times what the view itself does. So the device's entry of such an operator is given what the
CPU's entry holds: a reference to the kernel and its entry points, four words.

Where an operator keeps its entries is not torch's promise: it is found out on an operator of our own that is registered
for both, and tried out on it (`find`). With a torch that keeps them otherwise the kernel of Python stays, which is
registered in any case, and comes back when anybody registers another.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from relay.device.words import WORDS

_OURS = "PrivateUse1"
_PROBE = "relay_device_probe"
_SEARCHED = 192
"""Words of an operator that are looked at: the entries of dense tensors are the first of its table."""
_INSTANCE = object.__basicsize__
"""Where an object of pybind11 keeps the pointer to what it wraps."""


class NoTables(LookupError):
    """This torch keeps its kernels elsewhere, or otherwise."""


@dataclass(frozen=True, slots=True)
class Tables:
    """In words, counted from the operator's (`_start`): the CPU's ``cpu`` and the device's entry, and the ``width`` of
    one. An entry begins with a counted reference, whose count is the low half of the second word it points to."""

    cpu: int
    ours: int
    width: int

    def give(self, op: Any) -> None:
        """Have the device run the CPU's kernel of an `OpOverload`, on its own tensors."""
        start = _start(op)
        kernel = WORDS[start + self.cpu]
        if not kernel or not WORDS[start + self.ours]:
            raise NoTables(f"{op} has no kernel of the CPU's, or none of the device's to put it in the place of")
        WORDS[(kernel >> 3) + 1] += 1  # the entry that is written over is never given back: a kernel of ours for good
        for i in range(self.width):
            WORDS[start + self.ours + i] = WORDS[start + self.cpu + i]


def _start(op: Any) -> int:
    handle = WORDS[(id(op._handle) + _INSTANCE) >> 3]
    return int(WORDS[handle >> 3]) >> 3


def _changed(start: int, change: Callable[[], object]) -> list[int]:
    before = WORDS[start : start + _SEARCHED]
    change()
    after = WORDS[start : start + _SEARCHED]
    return [i for i, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]


def find() -> Tables:
    """Where this torch keeps an operator's kernels. NoTables where that cannot be told for certain."""
    library = torch.library.Library(_PROBE, "DEF")
    said: list[str] = []

    def saying(key: str) -> Callable[[torch.Tensor], torch.Tensor]:
        def kernel(x: torch.Tensor) -> torch.Tensor:
            said.append(key)
            return x.clone()

        return kernel

    try:
        library.define("probe(Tensor x) -> Tensor")
        op = getattr(torch.ops, _PROBE).probe.default
        start = _start(op)
        firsts = []
        for key in ("CPU", "CUDA", _OURS):  # the first two are neighbours
            changed = _changed(start, partial(library.impl, "probe", saying(key), key))
            firsts.append(changed[0] if changed else 0)
        cpu, neighbour, ours = firsts
        width = neighbour - cpu
        if not cpu or not 2 <= width <= 8 or ours <= neighbour or (ours - cpu) % width:
            raise NoTables(f"an operator's kernels lie at {firsts}")
        found = Tables(cpu, ours, width)
        found.give(op)
        op(torch.empty(0, device=torch.device(torch._C._get_privateuse1_backend_name())))
        if said != ["CPU"]:
            raise NoTables(f"a device with the CPU's kernel ran {said}")
        return found
    finally:
        library._destroy()


def install(ops: Iterable[Any]) -> None:
    """Give the device the CPU's kernels of these `OpOverload`s, if this torch lets it."""
    try:
        found = find()
        for op in ops:
            found.give(op)
    except Exception as missing:  # noqa: BLE001 - under somebody's mode anything; the kernels of Python are there
        warnings.warn(f"views are slower with this torch: {missing}", RuntimeWarning, stacklevel=2)
