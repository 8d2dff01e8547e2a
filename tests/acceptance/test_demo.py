"""``make demo`` as a user runs it: it ends by itself with the right verdict, and Ctrl-C leaves nothing behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.demo, pytest.mark.torch, pytest.mark.broker]
ONCE_S = 300
READY_S = 90


def start(folder: Path, tmp: Path, *args: str) -> subprocess.Popen[str]:
    tmp.mkdir()
    return subprocess.Popen(
        [sys.executable, "-m", "relay.demo", "--dir", str(folder), *args],
        env={**os.environ, "TMPDIR": str(tmp)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def processes_of(folder: Path) -> list[str]:
    """Command lines of processes that know the folder, by argument or environment."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        if entry.name == str(os.getpid()):
            continue
        try:
            text = (entry / "cmdline").read_text() + (entry / "environ").read_text(errors="replace")
        except OSError:
            continue
        if str(folder) in text:
            found.append((entry / "cmdline").read_text().replace("\0", " "))
    return found


def test_once_ends_by_itself_with_the_right_verdict(tmp_path: Path) -> None:
    demo = start(tmp_path / "demo", tmp_path / "tmp", "--once")
    said, _ = demo.communicate(timeout=ONCE_S)
    assert demo.returncode == 0, said
    assert "Every step happened and the verdict is right" in said
    assert "verdict failure" in said
    assert processes_of(tmp_path) == []
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopping_it_leaves_no_process_and_no_file(tmp_path: Path, number: signal.Signals) -> None:
    demo = start(tmp_path / "demo", tmp_path / "tmp")
    assert demo.stdout is not None
    began = time.monotonic()
    for line in demo.stdout:
        if line.startswith("PR #"):
            break
        assert time.monotonic() - began < READY_S
    assert processes_of(tmp_path), "nothing runs: this test would see nothing"
    demo.send_signal(number)
    said, _ = demo.communicate(timeout=30)
    assert demo.returncode == 0, said
    assert processes_of(tmp_path) == []
    assert list((tmp_path / "tmp").iterdir()) == []
