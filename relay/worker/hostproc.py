"""The supervisor's end of a host: starts it inside the sandbox, takes its list, gives it orders, ends it."""

from __future__ import annotations

import os
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relay.worker import footprint, namespaces, protocol, sandbox, seccomp
from relay.worker import host as host_side
from relay.worker.adapters import EMULATED, Adapter, nodes_of
from relay.worker.logs import Logs
from relay.worker.outcome import died

QUIT_S = 5.0
LOOK_S = 0.1
"""Seconds between two looks at what the tests use."""
PROCESSES = 64
"""Processes that a batch may have at once; found out within LOOK_S, and the kernel stops at namespaces.PROCESSES."""
HOST_MB = 2048
"""MiB that host and collector may take beside a batch's: torch, and the variants of the largest files."""
LOG_BYTES = 64 << 20
"""Output that a batch may print."""


class HostGone(Exception):
    """The host ended, or was ended, in the middle of running."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a host is started into. ``site``: the overlay, if there is one; ``folder``: the supervisor's own."""

    folder: Path
    isolation: sandbox.Isolation
    site: Path | None = None
    readable: tuple[Path, ...] = ()
    adapter: Adapter = EMULATED


class HostProcess:
    """A forked host and the pipes to it and to its children. Serves any number of collections."""

    def __init__(self, pid: int, host: int, child: int, orders: int, go: int, logs: Logs, around: Surroundings) -> None:
        self.pid = pid
        self.host = protocol.Lines(host)
        self.child = protocol.Lines(child)
        self.logs = logs
        self.around = around
        self._orders, self._go = orders, go
        self._status: int | None = None
        self.collector = 0
        """The collector's process id, seen from here; 0: there is none that is known."""
        self.collected: host_side.Job | None = None
        """What the collector that waits for orders has imported."""
        self._footprint = footprint.Footprint()

    @classmethod
    def start(cls, around: Surroundings) -> HostProcess:
        host_in, host_out = os.pipe()
        child_in, child_out = os.pipe()
        orders_in, orders_out = os.pipe()
        go_in, go_out = os.pipe()
        logs = Logs(around.folder)
        pipes = host_side.Pipes(host_out, child_out, orders_in, go_in, logs.host.fd, logs.tests.fd)
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            _host(around, pipes, parent)
        for fd in (host_out, child_out, orders_in, go_in):
            os.close(fd)
        return cls(pid, host_in, child_in, orders_out, go_out, logs, around)

    # ------------------------------------------------------------------------------------------------------ speaking

    def order(self, **message: Any) -> None:
        try:
            protocol.send(self._orders, message, protocol.MAX_ORDER)
        except OSError as exc:
            raise HostGone(self.last_words()) from exc

    def go(self) -> None:
        """Lets the child run its next variant."""
        try:
            os.write(self._go, b"g")
        except OSError as exc:
            raise HostGone(self.last_words()) from exc

    def wait(self, seconds: float) -> None:
        """Until something came in, or the time is over."""
        fds = [lines.fd for lines in (self.host, self.child) if not lines.closed]
        if fds:
            select.select(fds, [], [], max(0.0, seconds))

    def finish(self) -> bool:
        """Ends the collector after its last batch. True: the host can take another job."""
        self.collected = None
        try:
            self.order(quit=True)
            until = time.monotonic() + QUIT_S
            while time.monotonic() < until and not self.host.closed:
                self.wait(until - time.monotonic())
                if any(message.get("t") == "ended" for message in self.host.read()):
                    return True
        except (HostGone, protocol.ProtocolError):
            return False
        return False

    def excess(self, memory_mb: float, *, host_too: bool = False) -> str:
        """What the tests take too much of, in words; empty when nothing. Looks at every process they started."""
        top = self.pid if host_too or not self.collector else self.collector
        found = sandbox.family(top, PROCESSES + 1)
        if len(found) > PROCESSES:
            return f"more than {PROCESSES} processes"
        allowed = memory_mb + (HOST_MB if host_too else 0)
        resident = self._footprint.of(found, allowed)
        if resident > allowed and len(found) > footprint.FEW:
            # a rough figure: what they share was counted for each, and their number is what is wrong
            return f"too many processes: {len(found)} at once, {resident:.0f} MiB with what they share counted for each"
        if resident > allowed:
            return f"out of memory: {resident:.0f} MiB resident, the limit is {memory_mb:g}"
        if self.logs.size() > LOG_BYTES:
            return f"more than {LOG_BYTES >> 20} MiB printed"
        return ""

    def unstop(self) -> None:
        """Lets a collector go on that a test has stopped: it could not say that the test's process has ended."""
        if self.collector and sandbox.stopped(self.collector):
            _signal([self.collector], signal.SIGCONT)

    def rest(self) -> None:
        """Stops whatever runs below the host until `wake`: what a file started at import costs nobody a core between
        two shards."""
        stopped: set[int] = set()
        while left := set(sandbox.descendants(self.pid, PROCESSES)) - stopped:
            stopped |= left
            _signal(left, signal.SIGSTOP)

    def wake(self) -> None:
        """Lets it all go on."""
        _signal(sandbox.descendants(self.pid, PROCESSES), signal.SIGCONT)

    # -------------------------------------------------------------------------------------------------------- ending

    def last_words(self) -> str:
        """How the host ended, with the end of what it printed."""
        how = "the test host does not answer"
        if self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            for _ in range(20):
                if pid or not self.host.closed:
                    break
                time.sleep(0.05)
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
        if self._status is not None:
            how = died(self._status, "the test host")
        return self.with_tail(how)

    def with_tail(self, how: str) -> str:
        """``how`` something ended, with the end of what it printed."""
        tail = self.logs.host.tail(0, 600)
        return f"{how}; its output ends: {tail}" if tail else how

    def end(self) -> None:
        """Ends the host and whatever it started; closes the pipes."""
        if self._status is None:
            try:
                os.killpg(self.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                os.kill(self.pid, signal.SIGKILL)
            self._status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        for fd in (self.host.fd, self.child.fd, self._orders, self._go):
            os.close(fd)
        self.logs.close()


def _signal(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _host(around: Surroundings, pipes: host_side.Pipes, parent: int) -> None:
    """In the forked child: into the sandbox, run the host, and never return."""
    status = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.setsid()
        _only(pipes)
        sandbox.hide_process(False)  # the maps of a new namespace are written through /proc/self
        isolation = around.isolation
        alone = isolation.processes
        if isolation.network and not namespaces.leave(everything=alone):
            raise OSError("the namespaces cannot be had, though a trial could")
        if alone:
            sandbox.die_with_parent(parent)
            waiting = os.getpid()
            # listed now: the first process of the namespace changes the root of this one too, and the /proc that is
            # there afterwards does not know it
            mine = _descriptors()
            pid = os.fork()
            if pid:
                _close(mine)
                status = _wait_for(pid)
                return
            parent = waiting
            sandbox.die_with_parent(0)  # it is outside of this namespace: seen from here its number is 0
            nodes = nodes_of(around.adapter.nodes)
            namespaces.furnish(namespaces.Room(around.readable, around.folder / "root", nodes=nodes))
            tmp = namespaces.SCRATCH
        else:
            tmp = around.folder / "tmp"
            tmp.mkdir(exist_ok=True)
            os.chdir(tmp)
        os.environ.clear()
        os.environ.update(sandbox.environment(tmp))
        tempfile.tempdir = str(tmp)  # the module remembers the folder that it was first asked for
        if not sandbox.drop_rights():
            raise OSError("rights cannot be dropped")
        if isolation.calls and not seccomp.install():
            raise OSError("system calls cannot be filtered, though a trial could")
        sandbox.hide_process()
        sandbox.die_with_parent(0 if alone else parent)  # last: a change of rights clears it
        status = host_side.main(around.site, pipes, alone=alone, adapter=around.adapter)
    except BaseException:  # noqa: BLE001 - a forked child must never return into its parent's frames
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _wait_for(pid: int) -> int:
    """Ends as the namespace's first process ended, whose only relation outside this process is."""
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status < 0:
        signal.signal(-status, signal.SIG_DFL) if -status not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), -status)
    return status


def _only(pipes: host_side.Pipes) -> None:
    """Closes every descriptor but the pipes, and points the standard ones at the host's log."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(pipes.host_log, 1)
    os.dup2(pipes.host_log, 2)
    _close(_descriptors() - {getattr(pipes, name) for name in host_side.Pipes.__slots__})


def _descriptors() -> set[int]:
    """Every open descriptor but the standard ones."""
    return {int(entry) for entry in os.listdir("/proc/self/fd")} - {0, 1, 2}


def _close(descriptors: set[int]) -> None:
    for fd in descriptors:
        with suppress(OSError):  # the descriptor of the listing itself
            os.close(fd)
