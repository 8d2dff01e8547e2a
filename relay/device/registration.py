"""Registers the device with torch, once a process. The rename of PrivateUse1 is for the life of the process."""

from __future__ import annotations

import mmap
import sys
import warnings
from itertools import repeat

import torch

from relay.device import autocast, factories, finding, generator, moves, rnn, storage, streams, tables, text
from relay.device.dlpack import DL_EXT, flip
from relay.device.errors import DeviceError
from relay.device.fallback import fallback, kernel_for
from relay.device.kernels import CHECKED_BY_TORCH, DIRECT, METADATA_OPS, RETYPING, metadata_kernel
from relay.device.labels import FOUND
from relay.device.memory import NAME
from relay.device.meter import METER
from relay.device.module import make_module
from relay.device.plan import by_its_out, overload
from relay.device.policy import Policy, set_policy
from relay.device.words import CPU

KEY = "PrivateUse1"
_libraries: list[torch.library.Library] = []  # a Library unregisters its kernels when it is collected


_PRIVATE_USE_1 = torch._C._autograd.DeviceType.PrivateUse1


class _Guard(torch._C._acc.DeviceGuard):  # type: ignore[misc]
    """torch asks its type several times an operator; the guard that torch brings looks it up anew each time.

    It asks where no exception may pass, so this is a callable of C: one of Python's could be where a signal's handler
    runs, and raises.
    """

    type_ = repeat(_PRIVATE_USE_1).__next__


def is_installed() -> bool:
    """Whether `install` ran."""
    return bool(_libraries)


def install(policy: Policy | None = None, meter_map: mmap.mmap | None = None) -> None:
    """See `relay.device.install`."""
    if meter_map is not None:
        METER.bind(meter_map)
    if policy is not None:
        set_policy(policy)
        METER.set_machine(policy.machine)
    if is_installed():
        return
    taken = torch._C._get_privateuse1_backend_name()
    if taken != "privateuseone":
        raise DeviceError(f"PrivateUse1 is already named {taken!r} in this process; {NAME} needs a process of its own")
    if "torch.testing._internal.common_utils" in sys.modules:
        warnings.warn(
            f"torch.testing._internal.common_utils was imported before {NAME} was installed: its list of native "
            "devices is fixed at import, so upstream's device-generic tests will treat the device as a foreign one",
            RuntimeWarning,
            stacklevel=3,
        )
    from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

    _setup_privateuseone_for_python_backend(NAME, make_module(), device_guard=_Guard())
    finding.install(lambda: flip(torch.empty(2, 3, device=CPU), DL_EXT))
    aten = torch.library.Library("aten", "IMPL")
    everything = torch.library.Library("_", "IMPL")
    _libraries.extend((aten, everything))
    _register_kernels(aten)
    everything.fallback(fallback, KEY)
    tables.install(overload(name) for name in METADATA_OPS if name not in RETYPING)
    autocast.register(aten, everything)
    storage.install(aten)
    generator.install()
    streams.install()
    text.install()
    # Autograd gives a device a thread of its own, and every backward goes there and back: with busy cores that is
    # milliseconds for a step of microseconds. Of this thread, and of what is forked from it, backward runs here.
    torch._C._set_multithreading_enabled(False)
    # The device guard that Python backends get has no synchronizeDevice, and nothing here is ever pending.
    torch._C._accelerator_synchronizeDevice = lambda index=0: None
    # Memory goes back to the C library at once; there is no caching allocator to ask.
    torch._C._accelerator_isAllocatorInitialized = lambda: False


def _register_kernels(aten: torch.library.Library) -> None:
    own = DIRECT | rnn.CELLS | factories.kernels(FOUND.labels)
    own |= {name: metadata_kernel(name) for name in METADATA_OPS}
    if FOUND.labels is not None:
        own |= moves.kernels(FOUND.labels)
    for name, kernel in own.items():
        aten.impl(name, kernel, KEY)
    # A conj() or neg view would recurse until the stack ends: copy_ -> _copy_from -> resolve_conj -> clone -> copy_.
    for key in ("Conjugate", "Negative"):
        aten.impl("_copy_from", torch.library.fallthrough_kernel, key)
    for name in CHECKED_BY_TORCH:
        aten.impl(name, kernel_for(overload(name)), KEY)
    for full in torch._C._dispatch_get_all_op_names():
        name = full.removeprefix("aten::")
        if name != full and name not in own and by_its_out(full):
            aten.impl(name, kernel_for(overload(name)), KEY)
