"""A warm process that supervisors are forked from: ``python -m relay.worker.warm``, started by the worker.

Two kinds. With ``--torch`` it holds the installed torch, the device and upstream's test library: a shard on it starts
in milliseconds instead of 3 s. Without, it holds what torch imports from elsewhere, for shards whose torch is an
overlay and must be imported afresh. It runs no upstream code, and nothing that ran any is ever forked from.
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

from relay.worker import overlay, runner, sandbox, shard_run
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
        else:
            import_torch()
            for name in MORE_OF_TORCH:
                _try_import(name)
        gc.collect()
        gc.freeze()
        while True:
            message, fds, _, _ = socket.recv_fds(control, 64, 1)
            if not message:
                return 0
            _fork(control, fds[0], room)


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
