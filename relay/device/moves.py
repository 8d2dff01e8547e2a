"""The short way of what moves memory: a copy to the host, from it, or within the device, and memory itself.

What a test does between two operators is mostly this, and most of what the long way takes (`relay.device.copies`,
`relay.device.kernels`) goes to cases that it does not have: here are plain tensors of one dtype, lent or kept where
they lie (`relay.device.labels`). All else takes the long way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from relay.device import copies
from relay.device.copies import device_copy
from relay.device.labels import FOUND, NOT_LENT, Labels, both_lent, others
from relay.device.memory import NAME, STRIDED, WITHOUT_A_WILL, check_result, place, raise_if_out_of_memory
from relay.device.meter import METER
from relay.device.plan import Kernel
from relay.device.policy import CURRENT
from relay.device.words import CPU_KEYS, SHORTS, WORDS

_AS_IT_IS = (None, torch.preserve_format)
_clone = torch.ops.aten.clone.default._handle.redispatch_boxed
_copy = torch.ops.aten.copy_.default._handle.redispatch_boxed
_to_copy = torch.ops.aten._to_copy.default._handle.redispatch_boxed


def kernels(labels: Labels) -> dict[str, Kernel]:
    """To be registered for PrivateUse1, by name."""
    lend = _lending(labels)
    return {"_to_copy": _moved(labels, lend), "_copy_from": _copied(labels), "clone": _cloned(labels, lend)}


def _lending(labels: Labels) -> Callable[..., Any]:
    """``lend(tensor, cpus, kernel, **options)``: what a kernel of the CPU's makes of a tensor of the device whose keys
    are ``cpus`` as the CPU's."""
    at_device, at_keys, at_storage = labels.device, labels.keys, labels.storage
    of_storage, cpu, ours = labels.of_storage, labels.cpu, labels.ours

    def lend(tensor: torch.Tensor, cpus: int, kernel: Kernel, **options: Any) -> Any:
        at = tensor._cdata >> 3
        device = (at << 2) + at_device
        keys = at + at_keys
        whose = WORDS[keys]
        storage = (WORDS[at + at_storage] >> 1) + of_storage
        try:
            SHORTS[device] = cpu
            WORDS[keys] = cpus
            SHORTS[storage] = cpu
            return kernel(CPU_KEYS, tensor, **options)
        except RuntimeError as error:
            raise_if_out_of_memory(error)
            raise
        finally:
            SHORTS[device] = ours
            WORDS[keys] = whose
            SHORTS[storage] = ours

    return lend


def _moved(labels: Labels, lend: Callable[..., Any]) -> Kernel:
    """``aten::_to_copy``."""
    at_keys, to_cpu, plain_hosts = labels.keys, labels.to_cpu, labels.plain_hosts
    general, keep = copies.to_copy, labels.keep

    def sent(host: torch.Tensor) -> torch.Tensor:
        try:
            made: torch.Tensor = _clone(CPU_KEYS, host)
        except RuntimeError as error:
            raise_if_out_of_memory(error)
            raise
        return made

    def to_copy(
        self: torch.Tensor,
        *,
        dtype: torch.dtype | None = None,
        layout: torch.layout | None = None,
        device: torch.device | None = None,
        memory_format: torch.memory_format | None = None,
        **unused: Any,
    ) -> torch.Tensor:
        if (
            type(self) in WITHOUT_A_WILL
            and memory_format in _AS_IT_IS
            and layout in STRIDED
            and others() <= FOUND.bystanders
        ):
            whose = WORDS[(self._cdata >> 3) + at_keys]
            cpus = to_cpu.get(whose)
            same = dtype is None or dtype is self.dtype
            if cpus is not None and device is not None and device.type == "cpu":
                there: torch.Tensor = lend(self, cpus, _clone) if same else lend(self, cpus, _to_copy, dtype=dtype)
                METER.fetched(self.nbytes)
                return there
            if not CURRENT.policy.changes_numbers:
                if cpus is not None and not same and (device is None or device.type == NAME):
                    out: torch.Tensor = lend(self, cpus, _to_copy, dtype=dtype)
                    if keep(out):
                        check_result(out)
                        METER.add_alone(device_copy(self, out))
                        return out
                elif same and whose in plain_hosts:
                    check_result(self)
                    made = sent(self)
                    METER.sent(place(labels, made, filled=True))
                    return made
        return general(self, dtype=dtype, layout=layout, device=device, memory_format=memory_format)

    return to_copy


def _copied(labels: Labels) -> Kernel:
    """``aten::_copy_from``."""
    general = copies.copy_from

    def copy_from(src: torch.Tensor, dst: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
        if (
            type(src) not in WITHOUT_A_WILL
            or type(dst) not in WITHOUT_A_WILL
            or CURRENT.policy.changes_numbers
            or both_lent(labels, dst, src, _copy, CPU_KEYS, dst, src) is NOT_LENT
        ):
            return general(src, dst, non_blocking)
        if src.is_cpu:
            METER.transfer("h2d_bytes", src.nbytes)
        elif dst.is_cpu:
            METER.fetched(src.nbytes)
        else:
            METER.add_alone(device_copy(src, dst))
        return dst

    return copy_from


def _cloned(labels: Labels, lend: Callable[..., Any]) -> Kernel:
    """``aten::clone``."""
    at_keys, to_cpu, keep, general = labels.keys, labels.to_cpu, labels.keep, copies.clone

    def clone(self: torch.Tensor, **options: Any) -> torch.Tensor:
        if others() > FOUND.bystanders or CURRENT.policy.changes_numbers:
            return general(self, **options)
        cpus = to_cpu.get(WORDS[(self._cdata >> 3) + at_keys])
        if cpus is None:
            return general(self, **options)
        copy: torch.Tensor = lend(self, cpus, _clone, **options)
        if not keep(copy):
            return general(self, **options)
        check_result(copy)
        METER.add_alone(device_copy(self, copy))
        return copy

    return clone
