"""The supervisor's end of a host: starts it inside the sandbox, takes its list, gives it orders, ends it."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relay.worker import host as host_side
from relay.worker import protocol, sandbox
from relay.worker.batch import Row, parse_row
from relay.worker.outcome import died
from selector.model import TestId

if TYPE_CHECKING:
    from relay.worker.runner import Runner

START_S = 180.0
"""Seconds in which torch must be imported and a list of what was collected must follow the last file."""
MAX_ROWS = 500_000


class HostGone(Exception):
    """The host ended, or was ended, in the middle of running."""


@dataclass(slots=True)
class Collected:
    """What came of a collection. ``blamed``: the file that was being imported when the host ended; ``why`` says how."""

    collected: int = 0
    matched: set[TestId] = field(default_factory=set)
    emptied: dict[str, str] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    import_s: float = 0.0
    blamed: str | None = None
    why: str = ""


class HostProcess:
    """A forked host and the pipes to it and to its children."""

    def __init__(self, pid: int, host: int, child: int, orders: int, go: int, tmp: Path) -> None:
        self.pid = pid
        self.host = protocol.Lines(host)
        self.child = protocol.Lines(child)
        self._orders, self._go, self._tmp = orders, go, tmp
        self._status: int | None = None
        self.rows: list[Row] = []

    @classmethod
    def start(cls, runner: Runner, files: tuple[str, ...]) -> HostProcess:
        host_in, host_out = os.pipe()
        child_in, child_out = os.pipe()
        orders_in, orders_out = os.pipe()
        go_in, go_out = os.pipe()
        plan = host_side.HostPlan(
            runner.shard,
            runner.tree,
            runner.tmp,
            files,
            runner._site,
            runner._configs,
            runner._capability,
            runner._cut_network,
        )
        pipes = host_side.Pipes(host_out, child_out, orders_in, go_in)
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            _host(plan, pipes, parent)
        for fd in (host_out, child_out, orders_in, go_in):
            os.close(fd)
        return cls(pid, host_in, child_in, orders_out, go_out, runner.tmp)

    # ------------------------------------------------------------------------------------------------------ speaking

    def order(self, **message: Any) -> None:
        try:
            protocol.send(self._orders, message)
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

    # ---------------------------------------------------------------------------------------------------- collecting

    def collect(self, file_s: float, deadline: float) -> Collected:
        """Takes what the host says until its list is complete, it ends, or a file takes more than ``file_s``."""
        got = Collected()
        importing: str | None = None
        until = time.monotonic() + START_S
        try:
            while True:
                self.wait(min(until, deadline) - time.monotonic())
                for message in self.host.read():
                    until = time.monotonic() + START_S
                    kind = message.get("t")
                    if kind == "collected":
                        got.collected = int(message.get("items") or 0)
                        return got
                    if kind == "file":
                        file = protocol.text(message.get("file")) or "?"
                        importing = file if message.get("state") == "start" else None
                        error = protocol.text(message.get("error"))
                        if importing is not None:
                            until = time.monotonic() + file_s
                        elif error:
                            got.errors[file] = error
                    else:
                        self._take(kind, message, got)
                now = time.monotonic()
                during = " while the file was imported" if importing else ""
                if self.host.closed:
                    got.why = got.why or f"{self.last_words()}{during}"
                elif now > deadline:
                    got.why = f"the shard's time was over{during}"
                elif now > until:
                    got.why = f"importing the file took more than {file_s:g} s" if importing else self.last_words()
                else:
                    continue
                break
        except (protocol.ProtocolError, ValueError, TypeError) as exc:
            got.why = f"what the test host said cannot be used: {exc}"
        got.blamed = importing
        return got

    def _take(self, kind: Any, message: dict[str, Any], got: Collected) -> None:
        if kind == "ready":
            got.import_s = float(message.get("import_s") or 0)
        elif kind == "unusable":
            got.why = protocol.text(message.get("message")) or "the test host cannot work"
        elif kind == "rows":
            self.rows += [parse_row(row) for row in message["rows"]]
            if len(self.rows) > MAX_ROWS:
                raise protocol.ProtocolError(f"more than {MAX_ROWS} variants")
        elif kind == "matched":
            got.matched.add(TestId.parse(str(message.get("test"))))
        elif kind == "emptied":
            got.emptied[str(TestId.parse(str(message.get("test"))))] = protocol.text(message.get("reason")) or ""

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
        tail = log_tail(self._tmp / "host.log", 0, 600)
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


def log_tail(path: Path, start: int, limit: int = protocol.LOG_TAIL) -> str | None:
    """The last ``limit`` bytes of a log from ``start`` on, as text; None when there are none."""
    try:
        with open(path, "rb") as log:
            end = log.seek(0, os.SEEK_END)
            begin = max(start, end - limit)
            if begin >= end:
                return None
            log.seek(begin)
            tail = log.read(end - begin).decode("utf-8", "replace").replace("\x00", "")
    except OSError:
        return None
    return tail.strip() or None


def _host(plan: host_side.HostPlan, pipes: host_side.Pipes, parent: int) -> None:
    """In the forked child: into the sandbox, run the host, and never return."""
    status = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.setsid()
        _only(pipes)
        null = os.open(os.devnull, os.O_RDONLY)
        log = os.open(plan.tmp / "host.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(null, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(null)
        os.close(log)
        sandbox.hide_process(False)  # the maps of a new namespace are written through /proc/self
        if plan.cut_network and not sandbox.leave_network():
            raise OSError("the network cannot be left, though a trial could")
        if not sandbox.drop_rights():
            raise OSError("rights cannot be dropped")
        sandbox.hide_process()
        sandbox.die_with_parent(parent)  # last: a change of rights clears it
        status = host_side.main(plan, pipes)
    except BaseException:  # noqa: BLE001 - a forked child must never return into its parent's frames
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _only(pipes: host_side.Pipes) -> None:
    """Closes every descriptor but the standard ones and the pipes: the results above all."""
    keep = {pipes.host_out, pipes.child_out, pipes.orders_in, pipes.go_in}
    for entry in os.listdir("/proc/self/fd"):
        fd = int(entry)
        if fd > 2 and fd not in keep:
            try:
                os.close(fd)
            except OSError:
                continue  # the descriptor of the listing itself
