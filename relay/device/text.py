"""What a tensor prints. Its values come to the host in one transfer, as torch does it for those of its own devices on
which a tiny operator is dear (``lazy``, ``mtia``, ...): formatting takes dozens, which say nothing of what a test does.
"""

from __future__ import annotations

from typing import Any

import torch
import torch._tensor_str as printed

from relay.device.copies import CLONE
from relay.device.labels import FOUND, NOT_LENT, lent
from relay.device.memory import WITHOUT_A_WILL, device_alias
from relay.device.meter import METER

_FEW = 1 << 12


def install() -> None:
    """Strided tensors of the device are formatted by the CPU; all else is left to torch."""
    original = printed._tensor_str

    def tensor_str(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if not self.is_cpu and type(self) in WITHOUT_A_WILL:
            # A copy is made sooner than an alias, but of much it would take memory.
            copy = lent(FOUND.labels, CLONE, self) if self.numel() <= _FEW else NOT_LENT
            there = device_alias(self) if copy is NOT_LENT else copy
            if there is not None:
                METER.transfer("d2h_bytes", self.nbytes)
                self = there
        return original(self, *args, **kwargs)

    printed._tensor_str = tensor_str
