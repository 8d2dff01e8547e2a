"""The health check of processes that answer no HTTP: their loops touch a file."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fleet import fleet
from worker_web import wait_for

from relay import alive, broker


def probe(seconds: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "relay.alive", *([seconds] if seconds else [])]
    known = {key: value for key, value in os.environ.items() if key != alive.VARIABLE}
    return subprocess.run(command, env={**known, **env}, capture_output=True, text=True, check=False)


@pytest.mark.broker
def test_the_loops_of_pump_and_workers_touch_their_files(tmp_path: Path) -> None:
    server = broker.prepare(tmp_path)
    process = subprocess.Popen(server.command, stdout=subprocess.DEVNULL)
    try:
        with fleet(tmp_path / "fleet", f"sqlite:///{tmp_path / 'relay.sqlite3'}", server.url) as relay:
            relay.start("web")
            for name in ("pump", "relay", "select"):
                relay.start(name, RELAY_ALIVE_FILE=str(tmp_path / name))
            for name in ("pump", "relay", "select"):
                wait_for((tmp_path / name).exists)
                first = (tmp_path / name).stat().st_mtime_ns
                wait_for(lambda name=name, first=first: (tmp_path / name).stat().st_mtime_ns > first)
    finally:
        process.kill()
        process.wait()
        server.remove()


def test_the_check_tells_young_old_and_missing_apart(tmp_path: Path) -> None:
    file = tmp_path / "alive"
    assert probe("10", RELAY_ALIVE_FILE=str(file)).returncode == 1
    file.touch()
    assert probe("10", RELAY_ALIVE_FILE=str(file)).returncode == 0
    os.utime(file, (time.time() - 60, time.time() - 60))
    old = probe("10", RELAY_ALIVE_FILE=str(file))
    assert (old.returncode, "untouched for 6" in old.stderr) == (1, True)
    assert probe("10").returncode == 2
    assert probe("", RELAY_ALIVE_FILE=str(file)).returncode == 2
