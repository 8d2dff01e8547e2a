"""One batch in one forked child: turns what the child says, or that it ended or hung, into one outcome a variant."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from relay import device
from relay.worker import protocol
from relay.worker.outcome import RAW, died
from relay.worker.spec import Limits
from selector.model import Mode, Outcome, TestId

if TYPE_CHECKING:
    from relay.worker.following import Following
    from relay.worker.hostproc import HostProcess

KILL_S = 5.0
"""Seconds in which a host must end a child it is told to end."""
MOST_KERNELS = 2_000_000
"""Kernels a second that the emulated device cannot reach by an order of magnitude."""
MOST_COUNTED = 2**53
"""Above it no counter of a variant is told: JSON could not hold it."""
LOOK_S = 0.1
"""Seconds between two looks at a child's memory."""


@dataclass(frozen=True, slots=True)
class Row:
    """A variant the host announced: what it is, and how the configs want it."""

    test: TestId
    variant: str
    op: str | None
    dtype: str | None
    mode: Mode
    reason: str | None
    source: str | None
    tags: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return f"{self.test.file}::{self.test.cls}::{self.variant}"


def parse_row(value: Any) -> Row:
    """Reads a row of the host. Raises ProtocolError or ValueError."""
    if not isinstance(value, dict):
        raise protocol.ProtocolError("a row that is not an object")
    variant = protocol.text(value.get("variant"), 1000)
    if not variant:
        raise protocol.ProtocolError("a row without a variant")
    return Row(
        TestId.parse(str(value.get("test"))),
        variant,
        protocol.text(value.get("op"), 128),
        protocol.text(value.get("dtype"), 32),
        Mode(str(value.get("mode"))),
        protocol.text(value.get("reason")),
        protocol.text(value.get("source")),
        tuple(protocol.text(tag, 200) or "" for tag in value.get("tags") or ()),
    )


class Batch:
    """Runs ``rows`` in one child until it is through, or ends; every row gets at most one call of ``result``.

    Progress is certain: a run that reports no variant blames its first one.
    """

    def __init__(
        self,
        host: HostProcess,
        rows: Sequence[Row],
        limits: Limits,
        deadline: float,
        result: Callable[..., None],
        following: Following | None = None,
    ) -> None:
        self._following = following
        self._host, self._rows, self._limits, self._deadline, self._result = host, rows, limits, deadline, result
        self._position = 0
        self.implausible: list[str] = []
        """Variants whose kernel counts cannot be true: they have none."""
        self.leaked: list[str] = []
        """What the last variant left changed in its process, which ended therefore."""
        self._running = False
        self._since = time.monotonic()
        self._log_from = 0
        self._meter = device.METER.snapshot()

    def run(self) -> None:
        """Raises HostGone when the host ended; the variant that ran then has its outcome."""
        from relay.worker.hostproc import HostGone

        host = self._host
        host.child.drop()  # of the child before: nothing it left may count here
        host.logs.tests.empty()
        self._log_from = 0
        if self._following is not None:
            self._following.begin()
        host.order(run=[row.key for row in self._rows])
        forked, status, killed, kill_by = False, None, "", 0.0
        looked = time.monotonic()
        outcome = Outcome.ERROR
        try:
            while status is None:
                host.wait(LOOK_S)
                try:
                    if not killed:
                        self._take_child()
                    for message in host.host.read():
                        if message.get("t") == "forked" and not forked:  # a second one would only set the clock back
                            forked = True
                            self._since = time.monotonic()
                        elif message.get("t") == "exited":
                            status = int(message["status"])
                        elif message.get("t") == "ended":
                            raise HostGone(died(int(message["status"]), "the test host"))
                except (protocol.ProtocolError, ValueError, TypeError, KeyError) as exc:
                    killed, outcome = f"the test process broke the runner's protocol: {exc}", Outcome.ERROR
                now = time.monotonic()
                if status is None and not killed:
                    killed, outcome = self._overdue(now)
                    if not killed and now - looked > LOOK_S and forked:
                        looked = now
                        host.unstop()
                        killed = host.excess(self._limits.memory_mb)
                        outcome = Outcome.CRASHED
                if killed and not kill_by:
                    host.order(kill=True)
                    kill_by = now + KILL_S
                if host.host.closed or (kill_by and now > kill_by and status is None):
                    raise HostGone(host.last_words())
        except HostGone as gone:
            self._blame(outcome if killed else Outcome.CRASHED, killed or str(gone))
            raise
        if killed:
            self._blame(outcome, killed)
            return
        try:
            self._take_child()  # what it said just before it ended
        except protocol.ProtocolError as exc:
            self._blame(Outcome.ERROR, f"the test process broke the runner's protocol: {exc}")
            return
        if self._running or self._position == 0:
            why = died(status)
            if status == -9:
                why += ", most likely by the kernel for want of memory"
            self._blame(Outcome.CRASHED, why)

    @property
    def last(self) -> str:
        """Key of the variant that ended last."""
        return self._rows[max(0, self._position - 1)].key

    def _overdue(self, now: float) -> tuple[str, Outcome]:
        if now - self._since > self._limits.variant_s:
            return f"no end after {self._limits.variant_s:g} s", Outcome.TIMED_OUT
        if now > self._deadline:
            return f"the shard's {self._limits.shard_s:g} s were over", Outcome.TIMED_OUT
        return "", Outcome.ERROR

    def _take_child(self) -> None:
        for message in self._host.child.read():
            if self.leaked:
                continue  # the batch is over, and what the variant left running does not speak for the next
            if message.get("start") == self._position and not self._running and self._position < len(self._rows):
                self._running, self._since, self._log_from = True, time.monotonic(), self._log_size()
            elif message.get("end") == self._position and self._running:
                self._end(message)
            elif self._following is not None and self._running and ("ran" in message or "ops" in message):
                self._following.take(message)
            else:
                raise protocol.ProtocolError(f"unexpected {str(message)[:200]}")

    def _end(self, message: dict[str, Any]) -> None:
        raw, seconds = message.get("raw"), message.get("seconds")
        if raw not in RAW or not isinstance(seconds, (int, float)) or not 0 <= seconds < 1e6:
            raise protocol.ProtocolError("an end without outcome or seconds")
        failed = raw in ("failed", "error")
        if self._following is not None:
            row = self._rows[self._position]
            self._following.end(row.test, row.op, str(raw), float(seconds))
        self._write(
            str(raw),
            seconds=round(float(seconds), 6),
            message=protocol.text(message.get("message")),
            reason=protocol.text(message.get("reason")),
            log_tail=self._tail() if failed else None,
        )
        leaked = message.get("leaked")
        if leaked:
            if not isinstance(leaked, list):
                raise protocol.ProtocolError("leaks that are not a list")
            self.leaked = [protocol.text(name, 60) or "?" for name in leaked[:20]]
        else:
            self._host.go()

    def _blame(self, outcome: Outcome, why: str) -> None:
        """The variant that ran (or was to run next) gets the outcome of its process."""
        if self._position < len(self._rows):
            seconds = round(time.monotonic() - self._since, 3)
            self._write(outcome, seconds=seconds, message=protocol.text(why), log_tail=self._tail())

    def _write(self, outcome: Outcome | str, **values: Any) -> None:
        total = device.METER.snapshot()
        spent, self._meter = total - self._meter, total
        row = self._rows[self._position]
        most = MOST_KERNELS * (time.monotonic() - self._since + 1)
        if not 0 <= spent.kernels <= most or not 0 <= spent.modelled_ns <= most * 1e9:
            # the test process counts; this one can only see that no device was that fast
            self.implausible.append(row.key)
            counted: tuple[int | None, float | None, dict[str, int] | None] = None, None, None
        elif not self._host.around.adapter.metered:
            counted = None, None, None
        else:
            moved = {name: value for name, value in spent.moved().items() if 0 < value <= MOST_COUNTED}
            counted = spent.kernels, round(spent.modelled_us, 3), moved
        self._result(
            row,
            outcome,
            kernels=counted[0],
            modelled_us=counted[1],
            meter=counted[2],
            printed=(self._host.logs.tests, self._log_from, self._log_size()),
            **values,
        )
        self._position += 1
        self._running = False
        self._since = time.monotonic()
        self._log_from = self._log_size()

    def _log_size(self) -> int:
        return self._host.logs.tests.size()

    def _tail(self) -> str | None:
        return self._host.logs.tests.tail(self._log_from)
