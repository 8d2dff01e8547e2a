"""A warm process that supervisors are forked from: ``python -m relay.worker.warm``, started by the worker.

Two kinds. With ``--torch`` it holds the installed torch, the worker's device (with the package that registers it) and
upstream's test library: a shard on it starts in milliseconds instead of 3 s. Without, it holds what torch imports from
elsewhere, for shards whose torch is an overlay and must be imported afresh. It runs no upstream code, and nothing that
ran any is ever forked from.

The first thing it says is what came of its imports: ``{}``; ``{"failed": why}``, and it ends; ``{"apart": why}`` where
the device's package leaves something behind that no fork has, and it ends: each host then imports it by itself.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import importlib
import json
import os
import signal
import socket
import sys
import tempfile
from pathlib import Path

from relay.errors import RelayError
from relay.worker import adapters, hugepages, overlay, runner, sandbox, shard_run
from relay.worker.host import import_torch

WARM_FOLDER = "relay-warm-"
BESIDE_TORCH = (
    "numpy",
    "pytest",
    "_pytest.terminal",
    "hypothesis",
    "expecttest",
    "sympy",
    "networkx",
    "jinja2",
    "unittest.mock",
    "asyncio",
    "multiprocessing.pool",
    "setuptools",
    "psutil",
    "cProfile",
    "pickletools",
    "getpass",
    "tarfile",
    "numpy.random",
    "numpy.testing",
    "concurrent.futures.thread",
    "sqlite3",
    "relay.reuse.policy",
)
"""What torch and upstream's test library import of others."""
MORE_OF_TORCH = (
    "torch.testing._internal.common_quantization",
    "torch.testing._internal.hypothesis_utils",
    "relay.worker.collector",
)
"""What a good part of the test files import, too. Not inductor, which runs a compiler when it is imported."""


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m relay.worker.warm", description="Forks supervisors of shards.")
    parser.add_argument("--control-fd", type=int, required=True, help="socket of the worker")
    parser.add_argument("--parent", type=int, required=True, help="the worker's process id")
    parser.add_argument("--room", required=True, help="folder for the supervisors' folders")
    parser.add_argument("--torch", action="store_true", help="import the installed torch")
    parser.add_argument("--device", default="", help="the worker's device")
    parser.add_argument("--plugin", default="", help="package that registers it; empty: emulated")
    args = parser.parse_args(argv)
    sandbox.die_with_parent(args.parent)
    sandbox.hide_process()
    os.set_inheritable(args.control_fd, False)
    control = socket.socket(fileno=args.control_fd)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is the worker's to handle
    room = Path(args.room)
    with sandbox.private_tmp(WARM_FOLDER, room) as tmp:
        os.environ["TMPDIR"] = str(tmp)  # upstream makes folders for caches at import
        tempfile.tempdir = str(tmp)
        shard_run.isolation_here(tmp)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # supervisors are nobody's to wait for
        for name in BESIDE_TORCH:
            _try_import(name)
        if not args.torch:
            _load_compiled_torch()
            told = {}
        else:
            told = _import_torch(adapters.of(args.device, args.plugin))
        try:
            control.send(json.dumps(told).encode())
        except OSError:
            return 0  # nobody waits for it any more
        if told:
            return 1
        gc.collect()
        gc.freeze()
        hugepages.collapse()
        while True:
            message, fds, _, _ = socket.recv_fds(control, 64, 1)
            if not message:
                return 0
            _fork(control, fds[0], room)


def _import_torch(adapter: adapters.Adapter) -> dict[str, str]:
    """Imports torch with the device in place; -> what is said of it."""
    before = _footing()
    try:
        import_torch(adapter=adapter)
    except (Exception, SystemExit) as exc:  # noqa: BLE001 - a package may raise anything while it is imported
        beside = f" with {adapter.package}" if adapter.package else ""
        return {"failed": f"torch cannot be imported{beside}: {_words(exc)}"[:2000]}
    for name in MORE_OF_TORCH:
        _try_import(name)
    left = [what for what, number in _footing().items() if number > before[what]]
    return {"apart": f"{adapter.package} leaves {', '.join(left)}"} if adapter.package and left else {}


def _words(exc: BaseException) -> str:
    """What was raised, with its cause: torch puts words of its own before those of a device's package."""
    said = str(exc) if isinstance(exc, RelayError) else f"{type(exc).__name__}: {exc}"
    return f"{said} ({_words(exc.__cause__)})" if exc.__cause__ is not None else said


def _footing() -> dict[str, int]:
    """What a fork of this process would not have, or would share: its threads, children and open descriptors."""
    return {
        "threads": len(os.listdir("/proc/self/task")),
        "processes": len(sandbox.descendants(os.getpid())),
        "open files": len(os.listdir("/proc/self/fd")),
    }


def _load_compiled_torch() -> None:
    """An overlay changes Python files only: the compiled part that it will load is the installed one's."""
    site = overlay.installed_site()
    if site is None:
        return
    try:
        ctypes.CDLL(str(site / "torch" / "lib" / "libtorch_python.so"), os.RTLD_NOW | os.RTLD_GLOBAL)
    except OSError as exc:  # another build of torch: the import loads what it needs
        print(f"relay-warm: torch's libraries are not loaded ahead: {exc}", file=sys.stderr)  # noqa: T201


def _try_import(name: str) -> None:
    try:
        importlib.import_module(name)
    except ImportError as exc:  # another version of torch, or a package that is not there: tests do without, or fail
        print(f"relay-warm: {name} is not imported ahead: {exc}", file=sys.stderr)  # noqa: T201


def _fork(control: socket.socket, fd: int, room: Path) -> None:
    """Forks a supervisor that serves the socket ``fd``; answers with its pid and a descriptor of it."""
    sys.stderr.flush()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            control.close()
            sandbox.die_with_parent(parent)
            os.set_inheritable(fd, False)
            status = runner.serve(socket.socket(fileno=fd), room)
        except SystemExit as exc:
            status = exc.code if isinstance(exc.code, int) else 1
        except BaseException:  # noqa: BLE001 - a forked child must never return into its parent's frames
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stderr.flush()
            os._exit(status)
    os.close(fd)
    ended = os.pidfd_open(pid)
    socket.send_fds(control, [json.dumps({"pid": pid}).encode()], [ended])
    os.close(ended)


if __name__ == "__main__":
    sys.exit(main())
