"""Children die with their parent, come back when they die alone, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from relay.procs import Child, Supervisor


def wait(what: Callable[[], object], seconds: float = 10.0) -> object:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = what()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("it did not happen in time")


def alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def child(tmp_path: Path, code: str) -> Child:
    return Child("sleeper", [sys.executable, "-c", code], os.environ, tmp_path / "logs" / "sleeper.log")


def test_a_killed_child_is_started_again_and_its_own_children_are_ended(tmp_path):
    grandchild = tmp_path / "grandchild"
    code = (
        "import subprocess, sys, time\n"
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(grandchild)!r}, 'w').write(str(p.pid))\n"
        "time.sleep(600)"
    )
    supervisor = Supervisor()
    sleeper = supervisor.add(child(tmp_path, code))
    try:
        wait(lambda: grandchild.exists() and grandchild.read_text())
        old, below = sleeper.process.pid, int(grandchild.read_text())
        os.kill(old, signal.SIGKILL)
        wait(lambda: supervisor.step())
        wait(lambda: not alive(below))
        wait(lambda: (supervisor.step(), sleeper.process)[1])
        assert sleeper.process.pid != old
        assert sleeper.restarts == 1
    finally:
        supervisor.stop()
    assert not alive(sleeper.process.pid)


def test_a_child_that_ignores_sigterm_is_killed(tmp_path):
    code = (
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('up', flush=True)\ntime.sleep(600)"
    )
    supervisor = Supervisor()
    sleeper = supervisor.add(child(tmp_path, code))
    wait(lambda: "up" in sleeper.tail())
    supervisor.stop(grace_s=0.2)
    assert sleeper.process.returncode == -signal.SIGKILL


def test_children_die_when_the_supervisor_is_killed(tmp_path):
    pid_file = tmp_path / "pid"
    script = (
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "from relay.procs import Child, Supervisor\n"
        "s = Supervisor()\n"
        "sleep = [sys.executable, '-c', 'import time; time.sleep(600)']\n"
        f"c = s.add(Child('x', sleep, os.environ, Path({str(tmp_path)!r}) / 'x.log'))\n"
        f"Path({str(pid_file)!r}).write_text(str(c.process.pid))\n"
        "time.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script])
    wait(lambda: pid_file.exists() and pid_file.read_text())
    below = int(pid_file.read_text())
    assert alive(below)
    parent.kill()
    parent.wait()
    wait(lambda: not alive(below))


WAITS = """
import signal, threading
from relay.procs import on_signals
stop = threading.Event()
on_signals([signal.SIGTERM, signal.SIGINT], stop.set)
print("up", flush=True)
while not stop.wait(0):  # nearly always in the middle of a wait
    pass
"""


def test_a_signal_in_the_middle_of_a_wait_ends_it(tmp_path):
    for attempt in range(12):  # with a handler that sets the event itself, every second one hangs
        waits = subprocess.Popen([sys.executable, "-c", WAITS], stdout=subprocess.PIPE)
        try:
            waits.stdout.readline()
            time.sleep(0.0003 * attempt)
            waits.send_signal((signal.SIGTERM, signal.SIGINT)[attempt % 2])
            assert waits.wait(30) == 0
        finally:
            waits.kill()
            waits.communicate()
