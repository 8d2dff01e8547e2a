"""The host of a shard: the sandbox's first process. Has torch and the device, runs nothing, forks *collectors*.

It stays clean of the tests: a file that ends, blocks or breaks its collector costs a fork, not another import of torch.
It runs no operator: a child of a process that used autograd's threads cannot use autograd.
"""

from __future__ import annotations

import base64
import copyreg
import gc
import importlib
import os
import pickle
import select
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import relay.reuse
from relay import device
from relay.errors import RelayError
from relay.worker import hugepages, protocol, sandbox
from relay.worker.adapters import EMULATED, Adapter
from relay.worker.scratch import Scratch, folders
from relay.worker.spec import Shard
from selector.configs import Capability, ReuseConfigs


def _view(items: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(items)


copyreg.pickle(MappingProxyType, lambda view: (_view, (dict(view),)))  # configs hold such views
HOOK = "TORCH_TEST_DEVICES"
CORE = (
    "torch.testing._internal.common_utils",
    "torch.testing._internal.common_device_type",
    "torch.testing._internal.common_methods_invocations",
    "torch.testing._internal.common_modules",
)
"""What nearly every test file imports: 2 to 3 s with torch itself."""


@dataclass(frozen=True, slots=True)
class Job:
    """What one collector is for. ``files`` are collected together; written by the supervisor, trusted."""

    shard: Shard
    tree: Path
    files: tuple[str, ...]
    configs: ReuseConfigs | None
    capability: Capability | None

    def pack(self) -> str:
        """As text that fits into an order."""
        return base64.b64encode(pickle.dumps(self)).decode()

    @staticmethod
    def unpack(text: str) -> Job:
        """Reads what the supervisor packed; nothing else may be given to it."""
        job = pickle.loads(base64.b64decode(text))
        assert isinstance(job, Job)
        return job


@dataclass(frozen=True, slots=True)
class Pipes:
    """Descriptors: lines of host and collector out, the children's lines out, orders in, permissions to go on in,
    and the two logs (of host and collector, of the tests)."""

    host_out: int
    child_out: int
    orders_in: int
    go_in: int
    host_log: int
    tests_log: int


def import_torch(site: Path | None = None, adapter: Adapter = EMULATED) -> None:
    """Imports torch and what test files need, with the device and its test class in place. Again: does nothing.

    ``site`` (an overlay) goes first on ``sys.path``. Raises ImportError, and what the adapter raises.
    """
    # read at import, and again whenever a file's classes are made
    os.environ[HOOK] = str(Path(relay.reuse.__path__[0]) / "torch_test_device.py")
    os.environ["PYTORCH_TESTING_DEVICE_ONLY_FOR"] = "privateuse1"
    if "torch" in sys.modules:
        return
    sys.dont_write_bytecode = True
    if site is not None:
        sys.path.insert(0, str(site))
    import torch

    torch.set_num_threads(1)
    adapter.load()
    for name in CORE:
        importlib.import_module(name)
    if adapter.metered:
        device.comparing()
        device.prepare()


def main(site: Path | None, pipes: Pipes, *, alone: bool, adapter: Adapter = EMULATED) -> int:
    """Runs until the supervisor closes the orders. ``alone``: this is the first process of a namespace of its own."""

    def say(kind: str, **values: Any) -> None:
        protocol.send(pipes.host_out, {"t": kind, **values})

    began, forked = time.monotonic(), "torch" in sys.modules
    try:
        import_torch(site, adapter)
    except RelayError as exc:
        say("unusable", message=str(exc)[:2000])
        return 1
    except ImportError as exc:
        say("unusable", message=f"torch cannot be imported: {exc}"[:2000])
        return 1
    except Exception as exc:  # noqa: BLE001 - an overlaid torch may raise anything while it is imported
        say("unusable", message=f"torch cannot be imported with this change: {type(exc).__name__}: {exc}"[:2000])
        return 1
    import torch

    say("ready", torch=torch.__version__, import_s=round(time.monotonic() - began, 3))
    clean = Scratch(folders(alone))
    gc.collect()
    gc.freeze()
    if not forked:  # the process that this one is a fork of did it
        hugepages.collapse()
    orders = protocol.Lines(pipes.orders_in, protocol.MAX_ORDER)
    while not orders.closed:
        select.select([orders.fd], [], [])
        for order in orders.read():
            if "collect" in order:
                status = _collector(Job.unpack(order["collect"]), pipes, alone)
                clean.clear()
                say("ended", status=status)
    return 0


def _collector(job: Job, pipes: Pipes, alone: bool) -> int:
    """Forks a collector and waits for it, as the first process of its namespace for everybody's orphans, too."""
    from relay.worker import collector

    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            sandbox.die_with_parent(parent)
            sandbox.hide_process()
            sandbox.adopt_orphans()
            status = collector.main(job, pipes, alone)
        except BaseException as exc:  # noqa: BLE001 - a forked child must never return into its parent's frames
            print(f"the collector gave up: {exc!r}", file=sys.stderr)  # noqa: T201 - the host's log
        finally:
            with suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(status)
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == pid:
            break
    end_others(alone)
    return os.waitstatus_to_exitcode(status)


def end_others(alone: bool, group: int = 0) -> None:
    """Kills what tests left running: all but the host and this process in a namespace of their own, else ``group``
    and this process's children (orphans among them)."""
    with suppress(ProcessLookupError, PermissionError):
        if alone:
            os.kill(-1, signal.SIGKILL)
        elif group:
            os.killpg(group, signal.SIGKILL)
    sandbox.end_children()
