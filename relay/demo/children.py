"""The demo's two child processes: started with a log, waited for, ended with the demo whatever becomes of it."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relay.demo.upstream import DemoError
from relay.procs import PR_SET_PDEATHSIG


def _end_with_parent() -> None:
    # SIGTERM, unlike the supervisor's SIGKILL: `relay up` then ends its own children and removes its socket's folder
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


@dataclass
class ChildProcess:
    """``out`` takes its standard output, ``log`` its standard error."""

    name: str
    process: subprocess.Popen[bytes]
    out: Path
    log: Path

    def wait_ready(self, timeout_s: float) -> dict[str, Any]:
        """The JSON line ``{"event": "ready", ...}`` of its output. DemoError with the end of the log otherwise."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            ended = self.process.poll() is not None
            for line in self.out.read_text(errors="replace").splitlines():
                if line.startswith("{") and line.endswith("}") and '"ready"' in line:
                    said: dict[str, Any] = json.loads(line)
                    if said.get("event") == "ready":
                        return said
            if ended:
                raise DemoError(f"{self.name} ended with code {self.process.returncode}:\n{tail(self.log)}")
            time.sleep(0.03)
        raise DemoError(
            f"{self.name} is not ready after {timeout_s:.0f} s:\n{tail(self.log)}", f"its log is {self.log}"
        )

    def check(self) -> None:
        """DemoError when it has ended."""
        if self.process.poll() is not None:
            raise DemoError(f"{self.name} ended with code {self.process.returncode}:\n{tail(self.log)}")

    def stop(self, grace_s: float) -> None:
        """Asks, waits, kills."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(grace_s)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def start(name: str, command: Sequence[str], env: Mapping[str, str], logs: Path) -> ChildProcess:
    """Starts a child. Call from the main thread: a parent's death is its *thread's* death."""
    logs.mkdir(parents=True, exist_ok=True)
    out, log = logs / f"{name}.out", logs / f"{name}.log"
    with out.open("wb") as stdout, log.open("wb") as stderr:
        process = subprocess.Popen(
            command,
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            # Ctrl-C is for the demo alone: it ends the children in order
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )
    return ChildProcess(name, process, out, log)


def tail(log: Path, lines: int = 15) -> str:
    """The last lines of a log; says so when there are none."""
    try:
        found = log.read_text(errors="replace").splitlines()[-lines:]
    except OSError as exc:
        return f"  ({log}: {exc.strerror})"
    return "\n".join(f"  {line}" for line in found) or f"  ({log} is empty)"
