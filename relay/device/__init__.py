"""``spyre``: an emulated PrivateUse1 accelerator for torch 2.13 and newer, in pure Python on CPU memory.

Everything here is torch-free until `install` or `comparing` is called, so that a process that only reads the meter of
its children never pays for torch. See docs/device.md.
"""

from __future__ import annotations

import mmap

from relay.device.errors import (
    DeviceError,
    FallbackWarning,
    OutOfMemory,
    UnsupportedDtype,
    UnsupportedLayout,
    UnsupportedOp,
    kind_of,
)
from relay.device.meter import METER, METER_BYTES, Meter, MeterSnapshot, new_meter_map, read_snapshot
from relay.device.policy import UNLIMITED, Policy, current_policy, use_policy

__all__ = [
    "METER",
    "METER_BYTES",
    "NAME",
    "UNLIMITED",
    "DeviceError",
    "FallbackWarning",
    "Meter",
    "MeterSnapshot",
    "OutOfMemory",
    "Policy",
    "UnsupportedDtype",
    "UnsupportedLayout",
    "UnsupportedOp",
    "comparing",
    "comparison",
    "current_policy",
    "install",
    "installed",
    "kind_of",
    "new_meter_map",
    "prepare",
    "read_snapshot",
    "use_policy",
]

NAME = "spyre"
"""The device's name in torch: ``torch.device("spyre")``."""


def install(policy: Policy | None = None, meter_map: mmap.mmap | None = None) -> None:
    """Register the device in this process (0.2 s); again: only sets the policy and the meter's map, if given.

    Call it before anything imports ``torch.testing._internal.common_utils`` (that module fixes the list of native
    devices at import) and before forking; run no op in the parent of a fork. ``meter_map`` is a map from
    `new_meter_map` (shared with the parent of a fork). Raises `DeviceError` if another backend already took the name.
    """
    from relay.device import registration

    registration.install(policy, meter_map)


def installed() -> bool:
    """Whether `install` ran in this process or in an ancestor it was forked from."""
    import sys

    module = sys.modules.get("relay.device.registration")
    return bool(module is not None and module.is_installed())


def prepare() -> None:
    """Know every operator of torch's beforehand (0.1 s), so that what is forked need not find out. Needs `install`."""
    from relay.device import fallback

    if not installed():
        raise DeviceError("relay.device.prepare() came before relay.device.install()")
    fallback.prepare()


class comparison:
    """A region that only compares results: every op and dtype is allowed and no kernel counts as engagement."""

    __slots__ = ("_counting", "_limits")

    def __enter__(self) -> None:
        self._limits, self._counting = use_policy(UNLIMITED), METER.comparing()
        self._limits.__enter__()
        self._counting.__enter__()

    def __exit__(self, *exc: object) -> None:
        self._counting.__exit__()
        self._limits.__exit__()


def comparing() -> None:
    """Make upstream's ``TestCase.assertEqual`` and ``torch.testing.assert_close`` run inside `comparison`. Idempotent.

    They compare on the device (isclose, bitwise_and, ...), which a limited device could not do, and which says nothing
    about whether the test itself engaged the device. Needs `install` first.
    """
    from relay.device import compare

    compare.install()
