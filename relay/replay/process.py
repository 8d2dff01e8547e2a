"""This side of a replay's host process: starts it, has it collect, gives it orders one at a time."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import relay
from relay.errors import RelayError
from relay.worker import protocol
from relay.worker.replay.job import HostJob, Order

COLLECT_S = 900.0
"""Seconds in which the next file must be collected."""
GRACE_S = 60.0
"""Seconds beyond an order's own that its end may take."""


class ReplayBroken(RelayError):
    """The process that runs the tests of a replay cannot go on."""

    code = "replay-broken"


@dataclass(slots=True)
class Ended:
    """What came of an order: per variant key the raw outcome (a crash is ``crashed``), seconds, message, hits."""

    variants: dict[str, dict[str, Any]] = field(default_factory=dict)
    changed: int = 0
    late: bool = False


class Host:
    """A context manager. ``shares``: file -> the part of its variants that is in ``rows`` (key -> test, op)."""

    def __init__(self, job: HostJob, log: Path) -> None:
        self._job, self._log = job, log
        self.rows: dict[str, tuple[str, str | None]] = {}
        self.shares: dict[str, float] = {}
        self.counts: dict[str, int] = {}
        self.errors: dict[str, str] = {}

    def __enter__(self) -> Self:
        self._tmp = tempfile.TemporaryDirectory(prefix="relay-replay-")
        packed = Path(self._tmp.name, "job")
        packed.write_bytes(self._job.pack())
        orders_r, self._orders = os.pipe()
        out_r, out_w = os.pipe()
        code = os.pathsep.join([str(Path(relay.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]).strip(
            os.pathsep
        )
        env = {
            **os.environ,
            "PYTHONPATH": code,
            "OMP_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "TMPDIR": self._tmp.name,
        }
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "relay.worker.replay.host", str(packed), str(orders_r), str(out_w)],
                pass_fds=(orders_r, out_w), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env,
                cwd=self._tmp.name,
            )  # fmt: skip
        os.close(orders_r)
        os.close(out_w)
        self._lines = protocol.Lines(out_r, protocol.MAX_ORDER)
        try:
            self._collect()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            os.close(self._orders)
        try:
            self._process.wait(5 if kind is None else 0.1)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._lines.fd)
        self._tmp.cleanup()

    def run(self, order: Order) -> Ended:
        """Raises ReplayBroken when the host ended or says nothing any more."""
        ended = Ended()
        if not order.keys:
            return ended
        protocol.send(self._orders, {**asdict(order), "keys": list(order.keys)}, protocol.MAX_ORDER)
        for message in self._said(order.total_s + GRACE_S):
            if message["t"] == "end":
                ended.variants[message["key"]] = message
            elif message["t"] == "done":
                ended.changed, ended.late = int(message["changed"]), bool(message["late"])
                return ended
        raise ReplayBroken("the host ended in the middle of an order", f"its log says why: {self._log}")

    def _collect(self) -> None:
        for message in self._said(COLLECT_S):
            if message["t"] == "file" and message.get("error"):
                self.errors[message["file"]] = message["error"]
            elif message["t"] == "rows":
                self.shares[message["file"]] = message["share"]
                self.counts[message["file"]] = message["variants"]
                self.rows |= {key: (test, op) for key, test, op in message["rows"]}
            elif message["t"] == "ready":
                return
        raise ReplayBroken("the host ended before it had collected the tests", f"its log says why: {self._log}")

    def _said(self, patience: float) -> Iterator[dict[str, Any]]:
        until = time.monotonic() + patience
        while not self._lines.closed:
            if not select.select([self._lines.fd], [], [], max(0.0, until - time.monotonic()))[0]:
                raise ReplayBroken(f"the host said nothing for {patience:g} s", f"its log may say why: {self._log}")
            for message in self._lines.read():
                until = time.monotonic() + patience
                yield message
