"""Child processes that never outlive their parent, and that are brought back when they die."""

from __future__ import annotations

import ctypes
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import structlog

log = structlog.get_logger(__name__)
PR_SET_PDEATHSIG = 1
QUICK_DEATH_S = 5.0
MAX_PAUSE_S = 5.0


def die_with_parent() -> None:
    """Asks Linux to kill this process when its parent's thread ends. Call in the child, between fork and exec; start
    children from the main thread, because it is the *thread* whose end counts."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def stand_behind(nice: int) -> None:
    """Makes this process (of a new session) give way to others where cores are short."""
    os.nice(nice)
    with suppress(OSError):  # Linux may share cores between sessions first, and then between a session's processes
        Path("/proc/self/autogroup").write_text(str(nice), encoding="ascii")


def on_signals(numbers: Iterable[int], call: Callable[[], None]) -> None:
    """Has a thread call ``call`` at each of these signals; for the main thread.

    A handler runs between any two steps of the main thread, which may just hold the lock that ``Event.set`` takes (it
    does, for a moment of each ``Event.wait``), and would then wait for itself for ever. ``SimpleQueue.put`` is what the
    standard library gives for that place."""
    tell = for_handlers(call)
    for number in numbers:
        signal.signal(number, lambda *_: tell())


def for_handlers(call: Callable[[], None]) -> Callable[[], None]:
    """What a signal's handler may call to have a thread call ``call``, see `on_signals`."""
    came: queue.SimpleQueue[None] = queue.SimpleQueue()

    def heed() -> None:
        while True:
            came.get()
            call()

    threading.Thread(target=heed, name="signals", daemon=True).start()
    return lambda: came.put(None)


def _begin(nice: int) -> None:
    die_with_parent()
    if nice:
        stand_behind(nice)


@dataclass
class Child:
    """One supervised process: how to start it, where its output goes, and what became of it."""

    name: str
    command: Sequence[str]
    env: Mapping[str, str]
    log_path: Path
    before: Callable[[], None] | None = None  # runs before every start
    nice: int = 0  # how far it stands behind the others when cores are short
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    restarts: int = 0
    start_after: float = 0.0
    pause: float = field(default=0.2)

    def start(self) -> None:
        if self.before is not None:
            self.before()
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as out:
            # a session of its own: Ctrl-C reaches the supervisor alone, and the whole group can be ended
            self.process = subprocess.Popen(
                self.command,
                env=dict(self.env),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=partial(_begin, self.nice),
            )
        self.started_at = time.monotonic()

    def signal_group(self, number: int) -> None:
        if self.process is None:
            return
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            return

    def tail(self, lines: int = 15) -> str:
        """The last lines of its output, for an error message."""
        try:
            return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])
        except OSError:
            return ""


class Supervisor:
    """Keeps children alive until ``stop``. One that dies is started again, at once at first and then more slowly."""

    def __init__(self) -> None:
        self.children: list[Child] = []

    def add(self, child: Child) -> Child:
        self.children.append(child)
        child.start()
        return child

    def step(self) -> list[Child]:
        """Looks after every child once. Returns those that were found dead."""
        dead = []
        now = time.monotonic()
        for child in self.children:
            if child.process is None:
                if now >= child.start_after:
                    child.start()
                    child.restarts += 1
                continue
            code = child.process.poll()
            if code is None:
                continue
            # what it had started must not go on without it
            child.signal_group(signal.SIGKILL)
            child.pause = min(child.pause * 2, MAX_PAUSE_S) if now - child.started_at < QUICK_DEATH_S else 0.2
            child.start_after = now + child.pause
            child.process = None
            log.warning("process ended, will be started again", process=child.name, code=code, pause_s=child.pause)
            dead.append(child)
        return dead

    def stop(self, grace_s: float = 5.0) -> None:
        """Ends all children, the last started first: asks, waits, then kills whatever is left of their groups."""
        running = [c for c in reversed(self.children) if c.process is not None]
        for child in running:
            child.signal_group(signal.SIGTERM)
        deadline = time.monotonic() + grace_s
        for child in running:
            assert child.process is not None
            try:
                child.process.wait(max(0.05, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                log.warning("process does not end, killed", process=child.name)
            child.signal_group(signal.SIGKILL)
            child.process.wait()
