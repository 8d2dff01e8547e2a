"""The worker's side of its runners: warm processes started ahead, and the supervisors that are forked from them.

Everything is started from the worker's main thread: the kernel ties the end of a child to that of the *thread* that
started it. Where a warm process cannot be had, a runner is started cold, which only takes longer.
"""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import threading
import time
from pathlib import Path

import structlog

from relay import alive
from relay.worker import adapters, sandbox
from relay.worker.outcome import died
from relay.worker.running import TIDY_S, Cold, Forked, Order, Running, environment, program

log = structlog.get_logger(__name__)
START_S = 120.0
"""Seconds in which a warm process must have imported torch."""
LOOK_S = 0.5
AGAIN_S = 15.0
"""Seconds after which a torch that could not be imported is tried again: somebody may have mended it."""


class Warm:
    """A warm process and the socket to it. ``adapter``: the device that it imports torch with, None: without torch."""

    def __init__(self, room: Path, adapter: adapters.Adapter | None = None) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [*program("warm"), "--control-fd", str(theirs.fileno())]
        command += ["--parent", str(os.getpid()), "--room", str(room)]
        if adapter is not None:
            command += ["--torch", f"--device={adapter.device}", f"--plugin={adapter.package}"]
        self._log = room.parent / f"warm{'-torch' if adapter else ''}.log"
        self._began = time.monotonic()
        self.problem: str | None = None
        """Why it cannot be forked from: "" when it can, None while that is not known."""
        self.apart = ""
        """What the device's package leaves behind that no fork has."""
        with open(self._log, "wb") as out:
            self._process = subprocess.Popen(
                command, env=environment(room), cwd=room, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                pass_fds=[theirs.fileno()],
            )  # fmt: skip
        theirs.close()
        self._control = ours
        self._control.settimeout(START_S)

    def wait(self, seconds: float) -> bool:
        """Whether its ``problem`` is known, after waiting for at most ``seconds``."""
        if self.problem is None and select.select([self._control.fileno()], [], [], seconds)[0]:
            try:
                data = self._control.recv(1 << 14)
            except OSError:
                data = b""
            told = json.loads(data) if data else {"failed": self._last_words()}
            self.apart = told.get("apart", "")
            self.problem = self.apart or told.get("failed", "")
        elif self.problem is None and time.monotonic() - self._began > START_S:
            self.problem = f"importing torch took more than {START_S:g} s"
        return self.problem is not None

    def _last_words(self) -> str:
        try:
            how = died(self._process.wait(TIDY_S), "the process that imports torch")
        except subprocess.TimeoutExpired:
            how = "the process that imports torch does not answer"
        tail = self._log.read_bytes()[-600:].decode("utf-8", "replace").strip()
        return f"{how}; its output ends: {tail}" if tail else how

    def fork(self, head: str | None) -> Forked:
        """A supervisor. Raises OSError when the process is gone, cannot be forked from or does not answer."""
        if not self.wait(START_S) or self.problem:
            raise ChildProcessError(self.problem or "the warm process does not answer")
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
    """A worker's warm processes and the supervisor that is kept for another shard of the same head. ``adapter``: the
    device that the worker is for."""

    def __init__(self, folder: Path, adapter: adapters.Adapter = adapters.EMULATED) -> None:
        self.room = folder / "tmp"
        self.adapter = adapter
        self.held = ""
        """Why no shard is taken now; "" while nothing is known against it."""
        self._apart = False
        self._warm: dict[bool, Warm] = {}
        self._kept: Forked | None = None
        self._ahead = False

    def start(self) -> None:
        """Starts the warm processes, without waiting for them, and removes what killed ones left."""
        self._ahead = True
        self.sweep()
        for torch in (True, False):
            self._of(torch)

    def wait(self, stop: threading.Event) -> bool:
        """Returns when the worker's torch is imported with its device, so that no lease waits for it: True; False when
        the worker stops first. While that fails, ``held`` says why, and it is tried again. At once where nothing is
        started ahead."""
        while self._ahead and not self._apart and not stop.is_set():
            alive.touch(alive.path())  # to be started anew would not mend it
            try:
                warm = self._of(True)
                if warm.ended and warm.problem == "":  # it was there, and was killed since
                    self._end_warm(True)
                    continue
                if not warm.wait(LOOK_S):
                    continue
                why, self._apart = warm.problem or "", bool(warm.apart)
            except OSError as exc:
                why = f"the process that imports torch cannot be started: {exc}"
            if not why:
                break
            self._end_warm(True)
            if self._apart:
                log.warning("each shard imports torch by itself", why=why)
                break
            if why != self.held:
                log.error("no shard is taken", why=why)
            self.held = why
            stop.wait(AGAIN_S)
        if self.held and not stop.is_set():
            log.info("shards are taken again")
            self.held = ""
        return not stop.is_set()

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
            torch = not order.overlay and not self._apart
            try:
                forked = self._of(torch).fork(order.head)
                forked.run(order)
            except OSError as exc:
                log.warning("warm process started anew", why=str(exc))
                self._end_warm(torch)
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
            self._warm[torch] = Warm(self.room, self.adapter if torch else None)
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
