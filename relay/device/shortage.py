"""No memory: the device's is the host's, so what a kernel of the CPU's does not find, the device has not got."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch

from relay.device.errors import OutOfMemory
from relay.device.policy import CURRENT

_TOO_MUCH = re.compile(r"DefaultCPUAllocator: .*tried to allocate (\d+) bytes")


class DeviceOutOfMemory(OutOfMemory, torch.OutOfMemoryError):  # type: ignore[misc]
    """Caught by ``except torch.OutOfMemoryError``, too."""


def raise_if_out_of_memory(error: RuntimeError) -> None:
    """Raise `DeviceOutOfMemory` for a kernel of the CPU's that found none for its result."""
    found = _TOO_MUCH.search(str(error))
    if found:
        raise DeviceOutOfMemory(int(found.group(1)), CURRENT.policy.memory_bytes) from error


def made(kernel: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What a kernel of the CPU's makes. `DeviceOutOfMemory` if it finds no memory."""
    try:
        return kernel(*args, **kwargs)
    except RuntimeError as error:
        raise_if_out_of_memory(error)
        raise
