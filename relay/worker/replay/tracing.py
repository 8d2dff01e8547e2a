"""Which functions of torch's Python and which operators of the device a variant runs.

By Python's own trace hook, for calls alone: lines are not followed. Threads that C++ starts (a backward pass on the
device's own) are not seen, nor code that no file of torch holds.
"""

from __future__ import annotations

import sys
import threading
from types import CodeType, FrameType
from typing import Any

from relay.worker import protocol
from relay.worker.replay.kernels import record_ops
from selector.discover.traced import LONGEST

NAMES = 120
"""of a line"""


class Tracer:
    """Begins in the process that runs the variants. ``site``: the folder that holds the torch package."""

    def __init__(self, site: str) -> None:
        self._site = site.rstrip("/") + "/"
        self._codes: set[CodeType] = set()
        self._ops: set[str] = set()
        self._names: dict[CodeType, tuple[str, str] | None] = {}

    def begin(self, *, ops: bool = True) -> None:
        """``ops``: the operators, too, which only the emulated device tells."""
        codes = self._codes

        def call(frame: FrameType, event: str, arg: Any) -> None:
            codes.add(frame.f_code)

        if ops:
            record_ops(self._ops.add)
        threading.settrace(call)
        sys.settrace(call)

    def take(self) -> dict[str, Any]:
        """What ran since the last call: ``ran``, path -> names of functions (what is defined inside of one counts as
        it), ``ops``."""
        ran: dict[str, set[str]] = {}
        for code in tuple(self._codes):  # this very call is followed, too
            if code not in self._names:
                self._names[code] = self._named(code)
            if (named := self._names[code]) is not None:
                ran.setdefault(named[0], set()).add(named[1])
        ops = sorted(self._ops)
        self._codes.clear()
        self._ops.clear()
        return {"ran": {path: sorted(names) for path, names in ran.items()}, "ops": ops}

    def tell(self, out: int) -> dict[str, Any]:
        """Says what ran since the last call in lines that a supervisor takes; -> nothing for the line of the end."""
        told = self.take()
        lines: list[dict[str, Any]] = [
            {"ops": told["ops"][at : at + NAMES]} for at in range(0, len(told["ops"]), NAMES)
        ]
        gathered: dict[str, list[str]] = {}
        count = 0
        for path, names in told["ran"].items():
            fit = [name for name in names if len(name) <= LONGEST]
            for at in range(0, len(fit), NAMES):
                some = fit[at : at + NAMES]
                if count + len(some) > NAMES:
                    lines.append({"ran": gathered})
                    gathered, count = {}, 0
                gathered[path] = some
                count += len(some)
        for line in [*lines, {"ran": gathered}]:
            protocol.send(out, line)
        return {}

    def _named(self, code: CodeType) -> tuple[str, str] | None:
        name = code.co_qualname.partition(".<locals>")[0]
        if not code.co_filename.startswith(self._site + "torch/") or name.startswith("<"):
            return None
        return code.co_filename.removeprefix(self._site), name
