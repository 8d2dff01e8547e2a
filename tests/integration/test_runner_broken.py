"""Tests that break their process: each costs itself, and what it left changed does not reach the next."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from runner_cli import run_files

pytestmark = pytest.mark.torch

BROKEN = """
import ctypes, locale, os, random, signal, subprocess, sys, threading, time, warnings
import torch
from torch.testing._internal.common_utils import TestCase


class TestBroken(TestCase):
    def test_a_segfault(self):
        ctypes.string_at(0)

    def test_b_abort(self):
        os.abort()

    def test_c_exit(self):
        os._exit(0)

    def test_d_loop_in_python(self):
        while True:
            pass

    def test_e_wait_in_native_code(self):
        ctypes.CDLL(None).pause()

    def test_f_memory(self):
        kept = []
        while True:
            kept.append(bytearray(64 << 20))

    def test_g_memory_of_many(self):
        for _ in range(8):
            if os.fork() == 0:
                mine = bytearray(os.urandom(1 << 20)) * 400
                time.sleep(60)
        time.sleep(60)

    def test_h_fork_bomb(self):
        while True:
            try:
                os.fork()
            except OSError:
                time.sleep(0.01)

    def test_i_flood(self):
        line = b"x" * (1 << 20)
        while True:
            os.write(1, line)

    def test_j_closes_everything(self):
        os.closerange(0, 256)

    def test_k_kills_its_parent(self):
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)

    def test_l_kills_everybody(self):
        os.kill(-1, signal.SIGKILL)
        time.sleep(60)

    def test_m_stops_itself(self):
        os.kill(os.getpid(), signal.SIGSTOP)

    def test_n_daemon(self):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.execvp("sleep", ["sleep", "4321.5"])
            os._exit(0)

    def test_o_ends_by_exit(self):
        sys.exit(3)

    def test_p_recursion(self):
        def deeper(n):
            return deeper(n + 1)
        deeper(0)

    def test_z_still_runs(self):
        self.assertEqual(torch.ones(2).sum().item(), 2)
"""


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    # 2 GB of memory take a second to fill, and several where others fill theirs
    limits = {"variant_s": 8, "shard_s": 240, "memory_mb": 2048}
    lines, last = run_files(tmp_path_factory.mktemp("broken"), {"test_broken.py": BROKEN}, limits=limits)
    return lines, last["report"]


@pytest.mark.parametrize(
    ("variant", "outcome", "says"),
    [
        ("test_a_segfault", "crashed", "SIGSEGV"),
        ("test_b_abort", "crashed", "SIGABRT"),
        ("test_c_exit", "crashed", "status 0"),
        ("test_d_loop_in_python", "timed_out", "no end after 8 s"),
        ("test_e_wait_in_native_code", "timed_out", "no end after 8 s"),
        ("test_f_memory", "error|failed|crashed", "emory"),
        ("test_g_memory_of_many", "crashed", "out of memory"),
        ("test_h_fork_bomb", "crashed", "processes"),
        ("test_i_flood", "crashed", "MiB printed"),
        ("test_j_closes_everything", "crashed|error", ""),
        ("test_k_kills_its_parent", "crashed", "SIGKILL"),
        ("test_l_kills_everybody", "crashed", "SIGKILL"),
        ("test_m_stops_itself", "timed_out", "no end after 8 s"),
        ("test_n_daemon", "passed", ""),
        ("test_o_ends_by_exit", "failed|crashed", ""),
        ("test_p_recursion", "failed|error|crashed", ""),
        ("test_z_still_runs", "passed", ""),
    ],
)
def test_it_costs_itself_only(broken: Any, variant: str, outcome: str, says: str) -> None:
    line = broken[0][variant]
    assert line["outcome"] in outcome.split("|"), line
    assert says in (line["message"] or ""), line


def test_nothing_of_it_lives_on(broken: Any) -> None:
    assert not [p for p in Path("/proc").glob("[0-9]*/cmdline") if b"4321.5" in _read(p)]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


LEAKY = '''
import locale, os, random, signal, sys, time, warnings
import numpy, torch
from torch.testing._internal.common_utils import TestCase


def fresh(case):
    """What every test of this file must find, whatever the one before it did."""
    case.assertEqual(torch.get_default_dtype(), torch.float32)
    case.assertTrue(torch.is_grad_enabled())
    case.assertFalse(torch.are_deterministic_algorithms_enabled())
    case.assertEqual(torch.get_num_threads(), 1)
    case.assertEqual(str(torch.get_default_device()), "cpu")
    case.assertEqual(os.getcwd(), START)
    case.assertNotIn("LEFT_BEHIND", os.environ)
    case.assertIn("PATH", os.environ)
    case.assertEqual(locale.setlocale(locale.LC_ALL), LOCALE)
    case.assertEqual(signal.getsignal(signal.SIGUSR1), signal.SIG_DFL)
    case.assertEqual(signal.getitimer(signal.ITIMER_REAL), (0.0, 0.0))
    case.assertNotIn("/nowhere", sys.path)
    case.assertEqual(random.getstate(), RANDOM)
    case.assertEqual(numpy.geterr()["divide"], "warn")
    os.fstat(0), os.fstat(1), os.fstat(2)
    mask = os.umask(0o22)
    os.umask(mask)
    case.assertEqual(mask, MASK)


START, LOCALE, RANDOM = os.getcwd(), locale.setlocale(locale.LC_ALL), None
MASK = os.umask(0o22)
os.umask(MASK)


class TestLeaky(TestCase):
    def setUp(self):
        global RANDOM
        if RANDOM is None:
            RANDOM = random.getstate()
        fresh(self)

    def test_a_default_dtype(self): torch.set_default_dtype(torch.float64)
    def test_b_grad(self): torch._C._set_grad_enabled(False)
    def test_c_deterministic(self): torch.use_deterministic_algorithms(True)
    def test_d_threads(self): torch.set_num_threads(2)
    def test_e_recursion(self): sys.setrecursionlimit(5000)
    def test_f_cwd(self): os.chdir("/")
    def test_g_environment(self): os.environ["LEFT_BEHIND"] = "1"
    def test_h_environment_gone(self): del os.environ["PATH"]
    def test_i_locale(self): locale.setlocale(locale.LC_ALL, "C")
    def test_j_signal(self): signal.signal(signal.SIGUSR1, lambda *_: None)
    def test_k_alarm(self): signal.alarm(2)
    def test_l_path(self): sys.path.insert(0, "/nowhere")
    def test_m_random(self):
        random.seed(7)
        numpy.random.seed(7)
        torch.manual_seed(7)
    def test_n_numpy(self): numpy.seterr(divide="ignore")
    def test_o_stdout(self): os.close(1)
    def test_p_umask(self): os.umask(0o777)
    def test_q_blocked_signal(self): signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    def test_y_takes_a_while(self): time.sleep(2.5)
    def test_z_last(self): pass
'''


def test_what_a_test_leaves_changed_does_not_reach_the_next(tmp_path: Path) -> None:
    lines, last = run_files(tmp_path, {"test_leaky.py": LEAKY})
    assert {name: line["outcome"] for name, line in lines.items()} == dict.fromkeys(lines, "passed"), [
        line for line in lines.values() if line["outcome"] != "passed"
    ]
    left = {leak["variant"].rpartition("::")[2]: leak["left"] for leak in last["report"]["leaks"]}
    assert left["test_a_default_dtype"] == ["default dtype"]
    assert left["test_f_cwd"] == ["working directory"]
    assert left["test_k_alarm"] == ["timers"]
    assert left["test_q_blocked_signal"] == ["signal handlers"]
    # random numbers are put back: no reason to fork again
    assert not {"test_m_random", "test_y_takes_a_while", "test_z_last"} & left.keys()


HOGS = {
    "test_hog.py": "import torch\nkept = []\nwhile True: kept.append(bytearray(64 << 20))\nclass TestX:\n"
    "    def test_x(self): pass\n",
    "test_bomb.py": "import os, time\nwhile True:\n    try: os.fork()\n    except OSError: time.sleep(0.01)\n"
    "class TestX:\n    def test_x(self): pass\n",
    "test_fine.py": "from unittest import TestCase\nclass TestFine(TestCase):\n    def test_fine(self): pass\n",
}


def test_a_file_that_takes_everything_while_it_is_imported_costs_itself(tmp_path: Path) -> None:
    limits = {"variant_s": 5, "shard_s": 200, "memory_mb": 1024, "collect_s": 20}
    lines, last = run_files(tmp_path, HOGS, limits=limits)
    errors = {Path(e["file"]).stem: e["message"] for e in last["report"]["errors"]}
    assert "out of memory" in errors["test_hog"]
    assert "processes" in errors["test_bomb"]
    assert lines["test_fine"]["outcome"] == "passed"


DAEMON = """
import os, time
from unittest import TestCase


class TestDaemon(TestCase):
    def test_daemon(self):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.execvp("sleep", ["sleep", "8642.5"])
            os._exit(0)
        time.sleep(600)
"""


def test_kill_9_of_the_supervisor_leaves_no_daemon_and_its_folder_goes_with_the_next(tmp_path: Path) -> None:
    tests = tmp_path / "tree" / "test"
    tests.mkdir(parents=True)
    (tests / "test_daemon.py").write_text(DAEMON)
    shard = {"tests": ["test/test_daemon.py::TestDaemon::test_daemon"], "runtime": {"kind": "tests-only"}}
    (tmp_path / "spec.json").write_text(json.dumps(shard))
    (tmp_path / "room").mkdir()
    command = [sys.executable, "-m", "relay.worker.runner", "--spec", "spec.json", "--tree", "tree", "--out", "out"]
    env = {**os.environ, "TMPDIR": str(tmp_path / "room")}
    runner = subprocess.Popen(command, cwd=tmp_path, env=env)

    def daemons() -> list[Path]:
        return [p for p in Path("/proc").glob("[0-9]*/cmdline") if b"8642.5" in _read(p)]

    try:
        until = time.monotonic() + 60
        while not daemons():
            assert time.monotonic() < until, "the test did not start its daemon"
            time.sleep(0.1)
    finally:
        runner.kill()
        runner.wait()
    until = time.monotonic() + 10
    while daemons():
        assert time.monotonic() < until, "the daemon lives on"
        time.sleep(0.1)
    assert len(list((tmp_path / "room").iterdir())) == 1
    (tmp_path / "spec.json").write_text(json.dumps({**shard, "tests": []}))
    subprocess.run(command, cwd=tmp_path, env=env, check=True, timeout=60)
    assert list((tmp_path / "room").iterdir()) == []
