"""The health check of processes that answer no HTTP: their loops touch a file (test_engines), and this looks at it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from relay import alive


def probe(seconds: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "relay.alive", *([seconds] if seconds else [])]
    known = {key: value for key, value in os.environ.items() if key != alive.VARIABLE}
    return subprocess.run(command, env={**known, **env}, capture_output=True, text=True, check=False)


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
