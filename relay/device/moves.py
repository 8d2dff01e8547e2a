"""The short way of copies to the host, from it and within the device.

What a test does between two operators is mostly this, and most of what the long way takes (`relay.device.copies`) goes
to cases that it does not have: here are plain tensors, lent or kept where they lie (`relay.device.labels`). All else
takes the long way.
"""

from __future__ import annotations

import torch

from relay.device import copies
from relay.device.copies import AS_IT_IS, CLONE, TO_COPY, device_copy
from relay.device.labels import FOUND, NOT_LENT, Labels, both_lent, lent, others
from relay.device.memory import NAME, STRIDED, WITHOUT_A_WILL, check_result, place
from relay.device.meter import METER
from relay.device.plan import Kernel
from relay.device.policy import CURRENT
from relay.device.shortage import made
from relay.device.words import CPU_KEYS, WORDS

_copy = torch.ops.aten.copy_.default._handle.redispatch_boxed


def kernels(labels: Labels) -> dict[str, Kernel]:
    """To be registered for PrivateUse1, by name."""
    return {"_to_copy": _to_copy(labels), "_copy_from": _copy_from(labels)}


def _to_copy(labels: Labels) -> Kernel:
    at_keys, to_cpu, plain_hosts, keep = labels.keys, labels.to_cpu, labels.plain_hosts, labels.keep

    def to_copy(
        self: torch.Tensor,
        *,
        dtype: torch.dtype | None = None,
        layout: torch.layout | None = None,
        device: torch.device | None = None,
        memory_format: torch.memory_format | None = None,
        **unused: object,
    ) -> torch.Tensor:
        if (
            type(self) in WITHOUT_A_WILL
            and memory_format in AS_IT_IS
            and layout in STRIDED
            and others() <= FOUND.bystanders
        ):
            whose = WORDS[(self._cdata >> 3) + at_keys]
            same = dtype is None or dtype is self.dtype
            if whose in to_cpu:
                if device is not None and device.type == "cpu":
                    there: torch.Tensor = (
                        lent(labels, CLONE, self) if same else lent(labels, TO_COPY, self, dtype=dtype)
                    )
                    METER.transfer_alone("d2h_bytes", self.nbytes)
                    return there
                if not (same or CURRENT.policy.changes_numbers) and (device is None or device.type == NAME):
                    out: torch.Tensor = lent(labels, TO_COPY, self, dtype=dtype)
                    if keep(out):
                        check_result(out)
                        METER.add_alone(device_copy(self, out))
                        return out
            elif same and whose in plain_hosts and not CURRENT.policy.changes_numbers:
                check_result(self)
                fresh: torch.Tensor = made(CLONE, CPU_KEYS, self)
                METER.sent(place(labels, fresh, filled=True))
                return fresh
        return copies.to_copy(self, dtype=dtype, layout=layout, device=device, memory_format=memory_format)

    return to_copy


def _copy_from(labels: Labels) -> Kernel:
    def copy_from(src: torch.Tensor, dst: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
        if (
            type(src) not in WITHOUT_A_WILL
            or type(dst) not in WITHOUT_A_WILL
            or CURRENT.policy.changes_numbers
            or both_lent(labels, dst, src, _copy, CPU_KEYS, dst, src) is NOT_LENT
        ):
            return copies.copy_from(src, dst, non_blocking)
        if src.is_cpu or dst.is_cpu:
            METER.transfer_alone("h2d_bytes" if src.is_cpu else "d2h_bytes", src.nbytes)
        else:
            METER.add_alone(device_copy(src, dst))
        return dst

    return copy_from
