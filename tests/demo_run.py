"""A demo as a stranger starts it: one command in a folder, seen from outside through its files and processes."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


class DemoRun:
    """``python -m relay.demo ARGS --dir FOLDER`` as a process of its own."""

    def __init__(self, folder: Path, *args: str) -> None:
        self.folder = folder
        self.output = folder.with_name(folder.name + ".out")
        self.tmp = folder.with_name(folder.name + ".tmp")  # what it leaves outside its folder is found here
        self.tmp.mkdir(exist_ok=True)
        env = {k: v for k, v in os.environ.items() if not k.startswith("RELAY_")} | {"TMPDIR": str(self.tmp)}
        with self.output.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "relay.demo", "--dir", str(folder), *args],
                cwd=ROOT,
                env=env,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_for(self, what: Callable[[], Any], seconds: float = 120.0) -> Any:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = what()
            if found:
                return found
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise AssertionError(f"it did not happen; the demo said:\n{self.said()}")

    def finish(self, seconds: float = 240.0) -> int:
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired as exc:
            raise AssertionError(f"the demo does not end; it said:\n{self.said()}") from exc

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()

    def said(self) -> str:
        return self.output.read_text(errors="replace")

    def ready(self) -> dict[str, Any]:
        """What ``relay up`` announced: url and pids."""
        path = self.folder / "up.json"
        # a line is whole when its end is there; a leftover of an earlier run is removed by the demo before it starts
        text = self.wait_for(lambda: path.exists() and path.read_text().endswith("\n") and path.read_text())
        return json.loads(text)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Rows of the relay's database, [] while there is none."""
        path = self.folder / "relay.sqlite3"
        if not path.exists():
            return []
        try:
            connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5)
        except sqlite3.OperationalError:
            return []
        try:
            return connection.execute(query).fetchall()
        except sqlite3.OperationalError:
            return []  # not migrated yet
        finally:
            connection.close()

    def processes(self) -> list[int]:
        """Living processes that have anything to do with the folder."""
        needle = os.fsencode(str(self.folder))
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                text = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
                zombie = (entry / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
            if needle in text and not zombie:
                found.append(int(entry.name))
        return found
