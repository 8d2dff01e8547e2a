"""The worker's side of its runners: warm processes started ahead, and the supervisors that are forked from them.

Everything is started from the worker's main thread: the kernel ties the end of a child to that of the *thread* that
started it. Where a warm process cannot be had, a runner is started cold, which only takes longer.
"""

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

import structlog

import relay
from relay.worker import sandbox

log = structlog.get_logger(__name__)
START_S = 120.0
"""Seconds in which a warm process must have imported torch."""
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
        command = [*_program("runner"), "--spec", str(order.spec), "--tree", str(order.tree)]
        command += ["--out-fd", str(order.out), "--parent", str(os.getpid()), *(["--strict"] if order.strict else [])]
        self._process = subprocess.Popen(
            command,
            env=_environment(room),
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


class Warm:
    """A warm process and the socket to it."""

    def __init__(self, room: Path, *, torch: bool) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [*_program("warm"), "--control-fd", str(theirs.fileno())]
        command += ["--parent", str(os.getpid()), "--room", str(room), *(["--torch"] if torch else [])]
        with open(room.parent / f"warm{'-torch' if torch else ''}.log", "wb") as out:
            self._process = subprocess.Popen(
                command, env=_environment(room), cwd=room, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                pass_fds=[theirs.fileno()],
            )  # fmt: skip
        theirs.close()
        self._control = ours
        self._control.settimeout(START_S)

    def fork(self, head: str | None) -> Forked:
        """A supervisor. Raises OSError when the process is gone or does not answer."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                socket.send_fds(self._control, [b"fork"], [theirs.fileno()])
            message, fds, _, _ = socket.recv_fds(self._control, 256, 1)
            if not message or not fds:
                raise ConnectionResetError("the warm process ended")
        except OSError:
            ours.close()
            raise
        os.set_inheritable(fds[0], False)
        return Forked(ours, fds[0], head)

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def close(self) -> None:
        self._control.close()  # it then tidies up and ends; unless it is in the middle of an import
        try:
            self._process.wait(TIDY_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Runners:
    """A worker's warm processes and the supervisor that is kept for another shard of the same head."""

    def __init__(self, folder: Path) -> None:
        self.room = folder / "tmp"
        self._warm: dict[bool, Warm] = {}
        self._kept: Forked | None = None
        self._ahead = False

    def start(self) -> None:
        """Starts the warm processes, without waiting for them, and removes what killed ones left."""
        self._ahead = True
        self.sweep()
        for torch in (True, False):
            self._of(torch)

    def sweep(self) -> None:
        """Removes the folders of processes that were killed."""
        self.room.mkdir(parents=True, exist_ok=True)
        for prefix in ("relay-shard-", "relay-lease-", "relay-warm-"):
            sandbox.sweep(self.room, prefix)

    def run(self, order: Order) -> Running:
        """Starts a shard, on the kept supervisor of its head, a new one of a warm process, or cold."""
        kept = self._take_kept(order.head)
        if kept is not None:
            try:
                kept.run(order)
            except OSError:
                kept.close()
            else:
                return kept
        for _ in range(2 if self._ahead else 0):
            try:
                forked = self._of(not order.overlay).fork(order.head)
                forked.run(order)
            except OSError as exc:
                log.warning("warm process started anew", why=str(exc))
                self._end_warm(not order.overlay)
            else:
                return forked
        return Cold(order, self.room)

    def done(self, running: Running) -> None:
        """Takes back what ``run`` gave: kept for its head, or let go."""
        if isinstance(running, Forked):
            if running.head is not None and running.ended == 0 and not running.gone:
                self._kept = running
            else:
                running.close()
        for torch, warm in list(self._warm.items()):
            if warm.ended:  # its successor imports torch while the relay still decides what comes next
                log.warning("warm process started anew", why="it ended")
                self._end_warm(torch)
                self._of(torch)

    def close(self) -> None:
        """Ends everything that was started."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None
        for warm in self._warm.values():
            warm.close()
        self._warm.clear()
        self._ahead = False

    def _end_warm(self, torch: bool) -> None:
        warm = self._warm.pop(torch, None)
        if warm is not None:
            warm.close()

    def _of(self, torch: bool) -> Warm:
        if torch not in self._warm:
            self._warm[torch] = Warm(self.room, torch=torch)
        return self._warm[torch]

    def _take_kept(self, head: str | None) -> Forked | None:
        """The kept supervisor if it is of this head; one of another head ends: its torch is another change's."""
        kept = self._kept
        if kept is None or head is None:
            return None
        self._kept = None
        if kept.head == head:
            return kept
        kept.close()
        return None


def _program(name: str) -> list[str]:
    """A program beside this file, by its path. With ``-m`` the frames of runpy lie under every test, and upstream's
    tests look through their stack: what is no module's file costs a look at every module there is, 20 ms a test."""
    return [sys.executable, "-P", str(Path(__file__).with_name(f"{name}.py"))]


def _environment(room: Path) -> dict[str, str]:
    """Nothing of ours but what finds the program and the temporary folder."""
    # the package's folder comes along for a worker that runs from a checkout
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(Path(next(iter(relay.__path__))).absolute().parent),
        "TMPDIR": str(room.absolute()),
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
    }
