"""Which device a worker's tests run on: the emulated one, openreg, or real hardware through its plugin.

All of them run in the same host, collector and children. A real device is for one process and is of no use in a child
that was forked after it was initialised: an adapter loads what registers it, and the device begins in the child.
"""

from __future__ import annotations

import importlib
import importlib.util
import stat
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from relay import device
from relay.errors import RelayError
from selector.configs import Capability

OPENREG = "torch_openreg"
"""Upstream's reference device for backends out of the tree."""


class AdapterMissing(RelayError):
    """This worker has not got what a shard's device needs: infrastructure, never the change's fault."""

    code = "worker-device-missing"
    status = 409


class AlreadyInitialised(RelayError):
    """A device began before the fork of a test process, in which it would be of no use."""

    code = "worker-device-initialised"
    status = 409


@dataclass(frozen=True, slots=True)
class Adapter:
    """A device. ``package`` registers it with torch when it is imported; empty: the emulated one. ``nodes``: names
    below /dev, with * for any, that it needs in the sandbox.

    ``metered``: kernels are counted, and a count of none is evidence that a test does not engage the device.
    """

    device: str
    package: str = ""
    nodes: tuple[str, ...] = ()

    @property
    def metered(self) -> bool:
        return not self.package

    @property
    def fits(self) -> bool:
        """Whether this process may run it: it has imported no torch yet, or has this very device in place."""
        if _in_place:
            return _in_place[0] == self.key
        return not self.package or "torch" not in sys.modules

    @property
    def key(self) -> tuple[str, str]:
        """Equal for adapters that a process can have in place of each other: of a package's devices there is one."""
        return (self.device, self.package) if self.package else ("", "")

    def check(self) -> None:
        """Raises AdapterMissing where the package is not installed, or a node is not there. Imports nothing of it."""
        for pattern in self.nodes:
            if not nodes_of((pattern,)):
                raise AdapterMissing(
                    f"the device {self.device} needs /dev/{pattern}, and this machine has no such device node",
                    "RELAY_WORKER_NODES names what the device needs: is its driver loaded, is it in this container?",
                )
        if self.package and importlib.util.find_spec(self.package.partition(".")[0]) is None:
            raise AdapterMissing(
                f"the device {self.device} needs the package {self.package}, which is not installed",
                f"install it for {sys.executable}"
                + (": it is built from a PyTorch tree's test/cpp_extensions" if self.package == OPENREG else ""),
            )

    def load(self) -> None:
        """In the host, once torch is imported: registers the device. AdapterMissing, AlreadyInitialised."""
        if not self.package:
            device.install()
            _in_place[:] = [self.key]
            return
        self.check()
        importlib.import_module(self.package)
        import torch

        named = torch._C._get_privateuse1_backend_name()
        if named != self.device or getattr(torch, self.device, None) is None:
            raise AdapterMissing(
                f"the package {self.package} registers "
                + (f"no module for {named}" if named == self.device else f"the device {named}, not {self.device}"),
                "RELAY_WORKER_PLUGIN names the package of the device that RELAY_WORKER_DEVICE names",
            )
        self.check_untouched()
        _in_place[:] = [self.key]

    def begin(self, capability: Capability | None) -> None:
        """In the collector, before the first test file is imported."""
        if not self.package:
            device.install(None if capability is None else device.Policy.from_capability(capability))

    def awake(self) -> None:
        """In a forked test process, before its first variant: a real device begins here. What that changes in the
        process (signal handlers, threads, helpers) is the device's, and no variant left it."""
        if self.package:
            import torch

            torch.zeros(1, device=self.device)

    def check_untouched(self) -> None:
        """Before a fork: raises AlreadyInitialised where the device has begun. The emulated one may be forked."""
        if not self.package:
            return
        import torch

        module = getattr(torch, self.device, None)
        initialised = getattr(module, "is_initialized", None) or getattr(module, "_is_initialized", None)
        if initialised is not None and initialised():
            raise AlreadyInitialised(
                f"the device {self.device} was initialised before a test process was forked",
                "a test file, or the plugin, uses the device while it is imported",
            )


_in_place: list[tuple[str, str]] = []
"""Device and package that torch was imported with in this process, or in the one that it was forked from."""


def nodes_of(patterns: Iterable[str], dev: Path = Path("/dev")) -> tuple[Path, ...]:
    """The device nodes below ``dev`` that the patterns name, as paths below it."""
    found = {path for pattern in patterns for path in dev.glob(pattern)}
    kept = (path for path in sorted(found) if stat.S_ISCHR(mode := path.stat().st_mode) or stat.S_ISBLK(mode))
    return tuple(path.relative_to(dev) for path in kept)


EMULATED = Adapter("spyre")


def of(name: str, plugin: str = "", nodes: tuple[str, ...] = ()) -> Adapter:
    """The adapter of a device: of the real one that the package ``plugin`` registers, openreg's for ``openreg``, else
    the emulated one."""
    if plugin:
        return Adapter(name, plugin, nodes)
    return Adapter(name, OPENREG, nodes) if name == "openreg" else Adapter(name)
