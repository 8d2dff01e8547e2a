"""Hostile files that nobody is hurt by: what they leave, take or say costs themselves only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from runner_cli import run_files

pytestmark = pytest.mark.torch

HARM = r"""
import ctypes, os, resource, signal, threading, time
from multiprocessing import shared_memory
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize, subtest

libc = ctypes.CDLL(None, use_errno=True)


def fill(folder):
    file, data = os.open(os.path.join(folder, "filled"), os.O_WRONLY | os.O_CREAT), bytes(16 << 20)
    try:
        while True:
            os.write(file, data)
    except OSError:
        os.close(file)


class TestHarm(TestCase):
    def test_a_fills_tmp(self):
        fill("/tmp")

    def test_b_has_room(self):
        with open("/tmp/mine", "wb") as file:
            file.write(bytes(32 << 20))

    def test_c_fills_shared_memory(self):
        fill("/dev/shm")

    def test_d_has_shared_memory(self):
        block = shared_memory.SharedMemory(create=True, size=32 << 20)
        block.buf[:8] = b"12345678"
        block.close()
        block.unlink()

    def test_e_buries_folders(self):
        here = os.open("/dev/shm", os.O_RDONLY)
        for _ in range(3000):
            os.mkdir("x", dir_fd=here)
            below = os.open("x", os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below

    def test_f_stops_its_parent(self):
        os.kill(os.getppid(), signal.SIGSTOP)

    def test_g_memory_of_no_process(self):
        for take in (
            lambda: libc.memfd_create(b"x", 0),
            lambda: libc.syscall(447, 0),
            lambda: libc.shmget(0, 1 << 30, 0o1600),
            lambda: libc.semget(0, 32000, 0o1600),
            lambda: libc.msgget(0, 0o1600),
        ):
            self.assertEqual(take(), -1)
            self.assertEqual(ctypes.get_errno(), 1)

    def test_h_opens_everything(self):
        with self.assertRaises(OSError):
            kept = [os.open("/dev/null", os.O_RDONLY) for _ in range(6000)]

    def test_hh_binds_its_parent(self):
        for bind in (
            lambda: resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (3, 3)),
            lambda: os.sched_setaffinity(os.getppid(), {0}),
            lambda: os.sched_setscheduler(os.getppid(), os.SCHED_IDLE, os.sched_param(0)),
        ):
            with self.assertRaises(PermissionError):
                bind()
        resource.setrlimit(resource.RLIMIT_NOFILE, resource.getrlimit(resource.RLIMIT_NOFILE))
        os.sched_setaffinity(0, os.sched_getaffinity(0))

    def test_i_leaves_a_thread(self):
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()

    def test_j_leaves_a_process(self):
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)

    def test_k_changes_what_everybody_uses(self):
        import builtins
        builtins.divmod = lambda a, b: (7, 7)

    def test_l_takes_operators_away(self):
        from torch.testing._internal.common_methods_invocations import op_db
        del op_db[5:]

    def test_m_goes_on(self):
        from torch.testing._internal.common_methods_invocations import op_db
        self.assertGreater(sum(1 for _ in op_db), 100)
        self.assertEqual(divmod(9, 2), (4, 1))
        self.assertEqual(threading.active_count(), 1)

    def test_n_bombs_a_terminal(self):
        print("\x1b]0;owned\x07\x1b[2J\x9b31m")
        self.fail("\x1b[2J\x1b]8;;http://example.org\x07\x00 said")


    @parametrize("what", [subtest(1, name=name) for name in ("x" * 5000, "\x00null", "\x1b[2J", "\ud800", "fine")])
    def test_o_named(self, what):
        pass


instantiate_parametrized_tests(TestHarm)
"""
ASTRAY = r"""
import json, os, time
from unittest import TestCase

sleeper = os.fork()
if sleeper == 0:
    time.sleep(100)
    os._exit(0)
for fd in range(3, 64):
    for line in ({"t": "collector", "pid": sleeper}, {"t": "forked", "pid": sleeper}):
        try:
            os.write(fd, json.dumps(line).encode() + b"\n")
        except OSError:
            pass


class TestAstray(TestCase):
    def test_memory_of_many(self):
        for _ in range(6):
            if os.fork() == 0:
                mine = bytearray(os.urandom(1 << 20)) * 300
                time.sleep(60)
        time.sleep(60)
"""
LEFT = {
    "test_a_fills_tmp": "temporary files",
    "test_c_fills_shared_memory": "temporary files",
    "test_i_leaves_a_thread": "threads",
    "test_j_leaves_a_process": "processes",
    "test_k_changes_what_everybody_uses": "builtins",
    "test_l_takes_operators_away": "torch's lists of operators and modules",
}


@pytest.fixture(scope="module")
def harm(tmp_path_factory: pytest.TempPathFactory) -> Any:
    lines, last = run_files(
        tmp_path_factory.mktemp("harm"),
        {"test_harm.py": HARM},
        limits={"variant_s": 15, "shard_s": 200, "memory_mb": 4096},
    )
    report = last["report"]
    if report["isolation"]["lacking"]:
        pytest.skip(f"NOT RUN: this machine's sandbox lacks {report['isolation']['lacking']} (the report says so)")
    return lines, report


def test_every_variant_is_as_if_it_had_been_alone(harm: Any) -> None:
    lines, report = harm
    outcomes = {name: line["outcome"] for name, line in lines.items()}
    assert outcomes.pop("test_n_bombs_a_terminal") == "failed"
    assert outcomes == dict.fromkeys(outcomes, "passed"), [
        (n, lines[n]["message"]) for n, o in outcomes.items() if o != "passed"
    ]
    assert len(outcomes) == 15
    assert report["isolation"]["restarts"] == 0


def test_what_was_left_is_named(harm: Any) -> None:
    _, report = harm
    left = {leak["variant"].rpartition("::")[2]: leak["left"] for leak in report["leaks"]}
    assert {name: left.get(name) for name in LEFT} == {name: [what] for name, what in LEFT.items()}


def test_names_that_cannot_be_shown_do_not_run_and_are_told_of(harm: Any) -> None:
    lines, report = harm
    assert [name for name in lines if name.startswith("test_o_named")] == ["test_o_named_fine"]
    (error,) = report["errors"]
    assert error["file"] == "test/test_harm.py"
    assert "a variant's name" in error["message"]


def test_a_file_cannot_have_its_memory_looked_for_elsewhere(tmp_path: Path) -> None:
    limits = {"variant_s": 15, "shard_s": 200, "memory_mb": 700}
    lines, _ = run_files(tmp_path, {"test_astray.py": ASTRAY}, limits=limits)
    assert lines["test_memory_of_many"]["outcome"] == "crashed"
    assert "out of memory" in lines["test_memory_of_many"]["message"]


SPEAKS_FOR_OTHERS = r"""
import ctypes, json, os, time
from unittest import TestCase

libc = ctypes.CDLL(None)


class TestSpeaks(TestCase):
    def test_a_leaves_a_daemon_that_speaks(self):
        ours = [fd for fd in range(3, 64) if os.path.exists(f"/proc/self/fd/{fd}")]
        first = libc.fork()  # not os.fork, after which the pipes are closed
        if first == 0:
            if libc.fork() == 0:
                lines = json.dumps({"start": 1}) + "\n" + json.dumps({"end": 1, "raw": "passed", "seconds": 0.1}) + "\n"
                time.sleep(0.05)
                for fd in ours:
                    try:
                        os.write(fd, lines.encode())
                    except OSError:
                        pass
                time.sleep(60)
            os._exit(0)
        os.waitpid(first, 0)

    def test_b_the_truth(self):
        time.sleep(1)
        self.fail("the truth")

    def test_c_goes_on(self):
        pass
"""
MEDDLES = """
import builtins, os
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import TestCase

torch.set_default_dtype(torch.float64)
del op_db[5:]
builtins.divmod = lambda a, b: (7, 7)
os.chdir("/")


class TestMeddles(TestCase):
    def test_its_own(self):
        self.assertEqual(torch.ones(1).dtype, torch.float64)
        self.assertEqual(len(op_db), 5)
"""
BESIDE = """
import os
import torch
from torch.testing._internal.common_device_type import instantiate_device_type_tests, ops
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import TestCase


class TestBeside(TestCase):
    def test_unharmed(self):
        self.assertEqual(torch.ones(1).dtype, torch.float32)
        self.assertGreater(len(op_db), 100)
        self.assertEqual(divmod(9, 2), (4, 1))
        self.assertNotEqual(os.getcwd(), "/")
"""


def test_what_a_file_changes_when_it_is_imported_is_changed_for_itself_only(tmp_path: Path) -> None:
    sources = {
        "test_a_meddles.py": MEDDLES,
        "test_beside.py": BESIDE,
        "test_more.py": BESIDE.replace("unharmed", "safe"),
    }
    lines, last = run_files(tmp_path, sources)
    assert [line["outcome"] for line in lines.values()] == ["passed"] * len(lines), lines
    assert lines.keys() == {"test_its_own", "test_unharmed", "test_safe"}
    assert last["report"]["leaks"] == [
        {
            "variant": "test/test_a_meddles.py",
            "left": ["default dtype", "working directory", "builtins", "torch's lists of operators and modules"],
        }
    ]


def test_what_a_test_left_running_cannot_speak_for_the_next(tmp_path: Path) -> None:
    lines, last = run_files(tmp_path, {"test_speaks.py": SPEAKS_FOR_OTHERS})
    if last["report"]["isolation"]["lacking"]:
        pytest.skip("NOT RUN: without processes of its own a sandbox does not find them all")
    assert {name: line["outcome"] for name, line in lines.items()} == {
        "test_a_leaves_a_daemon_that_speaks": "passed",
        "test_b_the_truth": "failed",
        "test_c_goes_on": "passed",
    }
    assert [leak["left"] for leak in last["report"]["leaks"]] == [["processes"]]


LISTING = {
    "test_loops.py": """
from unittest import TestCase

class Endless(type):
    def __dir__(cls):
        while True:
            pass

class TestLoops(TestCase, metaclass=Endless):
    def test_x(self): pass
""",
    "test_leaves.py": """
import os
from unittest import TestCase

class Leaving(type):
    def __dir__(cls):
        os._exit(3)

class TestLeaves(TestCase, metaclass=Leaving):
    def test_x(self): pass
""",
    "test_leaves_later.py": """
import os
from unittest import TestCase

class Name(str):
    def __str__(self):
        os._exit(4)

class Late:
    __name__ = Name("test_y")
    def __call__(self): pass

class TestLater(TestCase):
    def test_x(self): pass
    test_y = Late()
""",
    "test_fine.py": """
from unittest import TestCase

class TestFine(TestCase):
    def test_fine(self): pass
""",
}


def test_a_file_that_ends_or_blocks_the_listing_of_its_tests_costs_itself(tmp_path: Path) -> None:
    limits = {"variant_s": 15, "shard_s": 200, "memory_mb": 2048, "collect_s": 4}
    lines, last = run_files(tmp_path, LISTING, limits=limits)
    errors = {error["file"].rpartition("/")[2]: error["message"] for error in last["report"]["errors"]}
    assert errors.keys() == LISTING.keys() - {"test_fine.py"}
    assert "took more than 4 s" in errors["test_loops.py"]
    assert "status 3" in errors["test_leaves.py"]
    assert "status 4" in errors["test_leaves_later.py"]
    assert {name: line["outcome"] for name, line in lines.items()} == {"test_fine": "passed"}
