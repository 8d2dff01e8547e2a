"""What a tensor prints. Its values come to the host in one transfer, as torch does it for those of its own devices on
which a tiny operator is dear (``lazy``, ``mtia``, ...): formatting takes dozens, which say nothing of what a test does.
"""

from __future__ import annotations

from typing import Any

import torch
import torch._tensor_str as printed

from relay.device.memory import device_alias
from relay.device.meter import METER

_PLAIN = (torch.Tensor, torch.nn.Parameter)


def install() -> None:
    """Strided tensors of the device are formatted by the CPU; all else is left to torch."""
    original = printed._tensor_str

    def tensor_str(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if not self.is_cpu and type(self) in _PLAIN:
            alias = device_alias(self)
            if alias is not None:
                METER.transfer("d2h_bytes", self.nbytes)
                self = alias
        return original(self, *args, **kwargs)

    printed._tensor_str = tensor_str
