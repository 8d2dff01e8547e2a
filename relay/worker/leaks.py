"""What a test may leave changed in its process, so that the next one does not run under it.

Random number generators are put back. Anything else that is found changed ends the child: what is left of the batch
runs in a fresh one, which costs a fork (some 10 ms) and needs no guess at how to undo it.
"""

from __future__ import annotations

import builtins
import gc
import locale
import os
import random
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

from relay.worker import namespaces, sandbox, scratch

LISTS = (
    ("torch.testing._internal.common_methods_invocations", "op_db"),
    ("torch.testing._internal.common_methods_invocations", "python_ref_db"),
    ("torch.testing._internal.common_modules", "module_db"),
)
"""What upstream's variants are made from, by module and name."""
OF_TORCH = "torch's lists of operators and modules"


MASKS = (b"SigBlk:", b"SigIgn:", b"SigCgt:")
OF_LIBC = 0b11 << 31
"""Signals 32 and 33: the C library's own, caught from the first thread on."""


AT_IMPORT = (
    "default dtype", "torch's modes", "torch's settings", "working directory", "locale", "signal handlers", "timers",
    "standard streams", "umask", "recursion limit", "builtins", OF_TORCH,
)  # fmt: skip
"""What a file that is imported must leave as it was, or others cannot be imported beside it. Not what many of
upstream's do for themselves: the import path, environment, warnings."""


class Imports:
    """The state of this process between two imports."""

    def __init__(self) -> None:
        self._probes = {name: probe for name, probe in _probes().items() if name in AT_IMPORT}
        self._before = self._now()

    def changed(self) -> list[str]:
        """Names of what is not as it was when this was asked the last time."""
        now = self._now()
        left = [name for name in now if now[name] != self._before[name]]
        self._before = now
        return left

    def _now(self) -> dict[str, Any]:
        return {name: _look(probe) for name, probe in self._probes.items()}


class State:
    """The state of this process, taken before its first test. Needs torch to be imported."""

    def __init__(self) -> None:
        self._probes = _probes() | {OF_TORCH: lambda: [len(one) for one in _lists_of_torch()]}  # after every variant
        self._before = {name: _look(probe) for name, probe in self._probes.items()}
        self._random = random.getstate()
        import torch

        self._torch = torch
        self._torch_rng = torch.get_rng_state()
        numpy = sys.modules.get("numpy")
        self._numpy = numpy.random if numpy is not None else None
        self._numpy_rng = self._numpy.get_state() if self._numpy is not None else None

    def changed(self) -> list[str]:
        """Names of what is not as it was, in words for people."""
        return [name for name, probe in self._probes.items() if _look(probe) != self._before[name]]

    def put_back(self) -> None:
        """Random number generators as they were."""
        random.setstate(self._random)
        self._torch.set_rng_state(self._torch_rng)
        if self._numpy is not None:
            self._numpy.set_state(self._numpy_rng)


def _lists_of_torch() -> list[Any]:
    return [getattr(sys.modules.get(module), name, ()) for module, name in LISTS]


def _look(probe: Callable[[], Any]) -> Any:
    try:
        return probe()
    except Exception as exc:  # noqa: BLE001 - a probe that fails now and did not before is a change, too
        return type(exc)


def _probes() -> dict[str, Callable[[], Any]]:
    import torch

    from relay import device

    alone = os.environ.get("TMPDIR") == str(namespaces.SCRATCH)  # its folders are memory of its own, and small
    places = scratch.folders(alone) if alone else ()

    def standard_streams() -> Any:
        return [(s.st_dev, s.st_ino) for s in map(os.fstat, (0, 1, 2))]

    def signals() -> Any:
        """Python's handlers, and the kernel's view: handlers set by native code, and blocked or ignored signals."""
        with open("/proc/self/status", "rb", buffering=0) as status:
            text = status.read(4096)
        masks = [int(text.partition(name)[2].split(None, 1)[0], 16) & ~OF_LIBC for name in MASKS]
        return [signal.getsignal(n) for n in (1, 2, 3, 10, 12, 13, 14, 15, 17)], masks

    def lists_of_torch() -> Any:
        return [tuple(map(id, one)) for one in _lists_of_torch()]

    def processes() -> Any:
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            own = len(sandbox.children(os.getpid()))
        except ChildProcessError:  # after nearly every variant: there is none
            own = 0
        collector = os.getppid()  # whose parent ended is its child
        with open(f"/proc/{collector}/task/{collector}/children", "rb", buffering=0) as children:
            return own, len(children.read(1 << 16).split())

    def umask() -> int:
        mask = os.umask(0o77)
        os.umask(mask)
        return mask

    def torch_modes() -> Any:
        return (
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
            torch.is_anomaly_enabled(),
            torch.is_autocast_enabled("cpu"),
            torch._C._len_torch_function_stack(),
            torch._C._len_torch_dispatch_stack(),
        )

    def torch_settings() -> Any:
        return (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
            torch.get_float32_matmul_precision(),
            torch.backends.mkldnn.enabled,
        )

    probes: dict[str, Callable[[], Any]] = {
        "default dtype": torch.get_default_dtype,
        "torch's modes": torch_modes,
        "torch's settings": torch_settings,
        "torch's threads": torch.get_num_threads,
        "the device's policy": device.current_policy,
        "working directory": os.getcwd,
        "environment": lambda: dict(os.environb),
        "locale": lambda: locale.setlocale(locale.LC_ALL),
        "signal handlers": signals,
        "timers": lambda: (signal.getitimer(signal.ITIMER_REAL)[0] > 0, signal.getitimer(signal.ITIMER_PROF)[0] > 0),
        "standard streams": standard_streams,
        "umask": umask,
        "import path": lambda: list(sys.path),
        "recursion limit": sys.getrecursionlimit,
        "garbage collector": gc.isenabled,
        "warnings filters": lambda: len(warnings.filters),
        "threads": threading.active_count,
        "processes": processes,
        "builtins": lambda: tuple(map(id, vars(builtins).values())),
        OF_TORCH: lists_of_torch,
        "temporary files": lambda: [scratch.crowded(folder) for folder in places],
    }
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        probes["numpy's error handling"] = numpy.geterr
    return probes
