"""The device sheet (``capability.yaml``): what a device has, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Capability:
    """What a device can do. Ops are aten base names as the device checks them (``add``, ``_softmax``).

    ``ops`` None: all of them. ``fallback_ops`` run on the CPU with a counted warning. Dtypes are names without
    ``torch.``. ``machine`` holds the figures of the model (units in the key: ``_gbps``, ``_us``, ``_bytes``, ``_w``).
    """

    name: str
    device: str
    dtypes: frozenset[str]
    ops: frozenset[str] | None
    fallback_ops: frozenset[str]
    limits: Mapping[str, object]
    machine: Mapping[str, float]
    features: Mapping[str, bool]

    def supports_op(self, aten_name: str) -> bool:
        raise NotImplementedError

    def supports_dtype(self, name: str) -> bool:
        raise NotImplementedError


def load_capability(text: str, source: str) -> Capability:
    raise NotImplementedError
