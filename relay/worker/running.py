"""A runner at work, as its worker sees it: what it is asked for, whether it has ended, and how it is made to end."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import relay

TIDY_S = 3.0
"""Seconds a supervisor that is no longer needed gets to tidy up."""


@dataclass(frozen=True, slots=True)
class Order:
    """A shard to run. ``head``: key of the head whose code is imported, None: nothing is kept for another shard;
    ``overlay``: torch itself is the head's; ``out`` and ``log`` are descriptors."""

    spec: Path
    tree: Path
    out: int
    log: int
    head: str | None = None
    overlay: bool = False
    strict: bool = False


class Running(Protocol):
    """A runner at work."""

    def wait(self, seconds: float) -> bool:
        """Whether it has ended, after waiting for at most ``seconds``."""

    def terminate(self) -> None:
        """Asks it to end and to tidy up."""

    def kill(self) -> None:
        """Ends it, with all below it."""

    @property
    def how(self) -> str:
        """How it ended, for people."""


class Cold:
    """A runner of its own, which imports torch itself."""

    def __init__(self, order: Order, room: Path) -> None:
        command = [*program("runner"), "--spec", str(order.spec), "--tree", str(order.tree)]
        command += ["--out-fd", str(order.out), "--parent", str(os.getpid()), *(["--strict"] if order.strict else [])]
        self._process = subprocess.Popen(
            command,
            env=environment(room),
            cwd=room,
            stdin=subprocess.DEVNULL,
            stdout=order.log,
            stderr=order.log,
            pass_fds=[order.out],
        )

    def wait(self, seconds: float) -> bool:
        try:
            self._process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def terminate(self) -> None:
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    @property
    def how(self) -> str:
        return f"the runner ended with status {self._process.returncode}"


class Forked:
    """A supervisor that was forked from a warm process, and its socket."""

    def __init__(self, control: socket.socket, pidfd: int, head: str | None) -> None:
        self._control, self._pidfd, self.head = control, pidfd, head
        self.ended: int | None = None
        self.gone = False

    def run(self, order: Order) -> None:
        """Gives it a shard. Raises OSError when it is gone."""
        self.ended = None
        request = {"spec": str(order.spec), "tree": str(order.tree), "strict": order.strict,
                   "keep": order.head is not None}  # fmt: skip
        socket.send_fds(self._control, [json.dumps(request).encode()], [order.out, order.log])

    def wait(self, seconds: float) -> bool:
        if self.ended is None and not self.gone:
            ready, _, _ = select.select([self._control.fileno(), self._pidfd], [], [], seconds)
            if self._control.fileno() in ready:
                try:
                    answer = self._control.recv(1 << 12)
                except OSError:
                    answer = b""
                if answer:
                    self.ended = int(json.loads(answer)["ended"])
                else:
                    self.gone = True
            elif self._pidfd in ready:
                self.gone = True
        return self.ended is not None or self.gone

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)
        self.gone = self._ends(TIDY_S)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        self._ends(TIDY_S)
        self.gone = True

    def close(self) -> None:
        """Lets it go: it tidies up when nobody can ask it for anything any more."""
        self._control.close()
        if not self._ends(TIDY_S):
            self._signal(signal.SIGKILL)
        os.close(self._pidfd)

    def _signal(self, number: int) -> None:
        try:
            signal.pidfd_send_signal(self._pidfd, number)
        except ProcessLookupError:
            self.gone = True

    def _ends(self, seconds: float) -> bool:
        return bool(select.select([self._pidfd], [], [], seconds)[0])

    @property
    def how(self) -> str:
        return "the runner was killed" if self.ended is None else f"the runner ended with status {self.ended}"


def program(name: str) -> list[str]:
    """A program beside this file, by its path. With ``-m`` the frames of runpy lie under every test, and upstream's
    tests look through their stack: what is no module's file costs a look at every module there is, 20 ms a test."""
    return [sys.executable, "-P", str(Path(__file__).with_name(f"{name}.py"))]


def environment(room: Path) -> dict[str, str]:
    """Nothing of ours but what finds the program, its packages and the temporary folder."""
    # the package's folder comes along for a worker that runs from a checkout
    own = Path(next(iter(relay.__path__))).absolute().parent
    paths = [str(own), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": "C.UTF-8",
        "PYTHONPATH": os.pathsep.join(filter(None, dict.fromkeys(paths))),
        "TMPDIR": str(room.absolute()),
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
    }
