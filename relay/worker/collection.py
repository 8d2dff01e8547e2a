"""The supervisor's side of a collection: what a collector lists is taken, checked, and limited in time and memory."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from relay.worker import protocol, sandbox
from relay.worker.batch import Row, parse_row
from relay.worker.host import Job
from relay.worker.hostproc import LOOK_S, HostProcess
from relay.worker.outcome import died
from selector.model import TestId

START_S = 180.0
"""Seconds in which torch must be imported and a list of what was collected must follow the last file."""
MAX_ROWS = 500_000


@dataclass(slots=True)
class Collected:
    """What came of a collection. ``blamed``: the file that was being imported when the host ended; ``why`` says how;
    ``late``: the shard's time was over, which is not the file's fault."""

    rows: list[Row] = field(default_factory=list)
    collected: int = 0
    matched: set[TestId] = field(default_factory=set)
    emptied: dict[str, str] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    apart: dict[str, list[str]] = field(default_factory=dict)
    """Files whose import changed what the others' tests would run under, with what."""
    import_s: float = 0.0
    blamed: str | None = None
    why: str = ""
    late: bool = False


def covers(host: HostProcess, job: Job) -> bool:
    """Whether the host's collector has imported the job's files, for the same tree, device and configs."""
    there = host.collected
    return there is not None and there.tree == job.tree and set(job.files) <= set(there.files) and (
        (there.shard.device, there.shard.capability, there.shard.configs, there.shard.trusted)
        == (job.shard.device, job.shard.capability, job.shard.configs, job.shard.trusted)
    )  # fmt: skip


def collect(host: HostProcess, job: Job, deadline: float) -> Collected:
    """Has the job's files collected, or asks the collector that `covers` them; takes what is said until the list is
    complete, the collector or host ends, or a file takes more than the shard's ``collect_s``.

    Raises HostGone when the collector must be started anew. ``deadline`` is a time of ``time.monotonic()``.
    """
    return _Collection(host, job, deadline).take()


class _Collection:
    def __init__(self, host: HostProcess, job: Job, deadline: float) -> None:
        self._host, self._job, self._deadline = host, job, deadline
        self._file_s = job.shard.limits.collect_s
        self._wanted = frozenset(job.shard.tests)
        self._got = Collected()
        self._importing: str | None = None
        self._ended = self._named = False
        self._until = self._looked = time.monotonic()

    def take(self) -> Collected:
        host, got = self._host, self._got
        again = covers(host, self._job)
        host.logs.empty()
        if again:
            host.order(next=self._job.pack())
        else:
            host.collector = 0
            host.order(collect=self._job.pack())
        self._until = time.monotonic() + START_S
        try:
            while True:
                host.wait(min(self._until, self._deadline, self._looked + LOOK_S) - time.monotonic())
                for message in host.host.read():
                    if self._message(message):
                        if not again:
                            host.collected = self._job
                        return got
                if why := self._trouble(time.monotonic()):
                    got.why = why
                    break
        except (protocol.ProtocolError, ValueError, TypeError, KeyError) as exc:
            got.why = f"what the test host said cannot be used: {exc}"
        host.collected = None
        got.blamed = self._importing
        return got

    def _message(self, message: dict[str, Any]) -> bool:
        """Takes one message. True: the list is complete."""
        got, kind = self._got, message.get("t")
        if kind == "file":
            file = protocol.text(message.get("file")) or "?"
            self._importing = file if message.get("state") == "start" else None
            error = protocol.text(message.get("error"))
            if self._importing is None and error:
                got.errors[file] = error
            left = message.get("left") or []
            if left and isinstance(left, list):
                got.apart[file] = [protocol.text(name, 60) or "?" for name in left[:20]]
        elif kind == "collected":
            got.collected = int(message.get("items") or 0)
            return True
        elif kind == "ended":
            got.why, self._ended = died(int(message["status"]), "the test host"), True
            self._host.collector = 0
        else:
            self._take(kind, message)
        self._until = time.monotonic() + (self._file_s if self._importing else START_S)
        return False

    def _take(self, kind: Any, message: dict[str, Any]) -> None:
        got = self._got
        if kind == "ready":
            got.import_s = float(message.get("import_s") or 0)
        elif kind == "unusable":
            got.why = protocol.text(message.get("message")) or "the test host cannot work"
        elif kind == "collector" and not self._named:
            # a collector's first word, before it imports a file; another one is a file's, to be looked at elsewhere
            self._named = True
            pids = sandbox.descendants(self._host.pid)
            self._host.collector = sandbox.by_inner_pid(pids, int(message["pid"])) or 0
        elif kind == "rows":
            rows = [parse_row(row) for row in message["rows"]]
            if any(row.test not in self._wanted for row in rows):
                raise protocol.ProtocolError("a variant of a test that the shard does not hold")
            got.rows += rows
            if len(got.rows) > MAX_ROWS:
                raise protocol.ProtocolError(f"more than {MAX_ROWS} variants")
        elif kind == "matched":
            got.matched.add(TestId.parse(str(message.get("test"))))
        elif kind == "emptied":
            got.emptied[str(TestId.parse(str(message.get("test"))))] = protocol.text(message.get("reason")) or ""

    def _trouble(self, now: float) -> str:
        """Why the collection cannot go on; empty while it can."""
        host, got = self._host, self._got
        during = " while the file was imported" if self._importing else ""
        if host.host.closed:
            return (got.why or host.last_words()) + during
        if got.why:
            return (host.with_tail(got.why) if self._ended else got.why) + during
        if now > self._deadline:
            got.late = True
            return f"the shard's time was over{during}"
        if now > self._until:
            return f"importing the file took more than {self._file_s:g} s" if self._importing else host.last_words()
        if now - self._looked > LOOK_S:
            self._looked = now
            excess = host.excess(self._job.shard.limits.memory_mb, host_too=True)
            return excess + during if excess else ""
        return ""
