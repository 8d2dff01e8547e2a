"""What shards of one head share: a collection, the verdict on a file that cannot be imported, nobody else's code."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from relay.worker.runners import Runners
from relay.worker.running import Order

pytestmark = pytest.mark.torch

STAMPED = """
import threading, time
from torch.testing._internal.common_utils import TestCase
from torch.testing._internal.common_device_type import instantiate_device_type_tests

STAMP = time.time_ns()
TICKS = []


def tick():
    while True:
        TICKS.append(time.monotonic())
        time.sleep(0.01)


threading.Thread(target=tick, daemon=True).start()


class TestStamped(TestCase):
    def test_one(self, device):
        self.fail(f"stamp {STAMP}")

    def test_two(self, device):
        self.fail(f"stamp {STAMP}")

    def test_longest_pause(self, device):
        self.fail(f"pause {max(b - a for a, b in zip(TICKS, TICKS[1:]))}")


instantiate_device_type_tests(TestStamped, globals())
"""
LOOPS = "while True: pass\n"
ONE, TWO, PAUSE = (f"test/test_stamped.py::TestStamped::test_{name}" for name in ("one", "two", "longest_pause"))
LOOP = "test/test_loops.py::TestLoops::test_x"


class Worker:
    """The worker's side of its runners, as the agent uses it."""

    def __init__(self, tmp: Path) -> None:
        self.tmp, self.tree = tmp, tmp / "tree"
        (self.tree / "test").mkdir(parents=True)
        (self.tree / "test" / "test_stamped.py").write_text(STAMPED)
        (self.tree / "test" / "test_loops.py").write_text(LOOPS)
        self.runners = Runners(tmp / "worker")
        self.runners.start()

    def run(self, head: str, *tests: str, **values: Any) -> tuple[dict[str, Any], dict[str, Any], float]:
        """(message by method, report, seconds) of a shard."""
        shard = {"runtime": {"kind": "tests-only"}, "tests": tests, "limits": {"collect_s": 4}, **values}
        spec = self.tmp / "spec.json"
        spec.write_text(json.dumps(shard))
        read, write = os.pipe()
        began = time.monotonic()
        with open(self.tmp / "log", "wb") as log:
            running = self.runners.run(Order(spec, self.tree, write, log.fileno(), head))
        os.close(write)
        with open(read, "rb") as lines:
            *results, last = map(json.loads, lines.read().splitlines())
        assert running.wait(10)
        self.runners.done(running)
        return {line["test"]: line["message"] for line in results}, last["report"], time.monotonic() - began


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    made = Worker(tmp_path_factory.mktemp("kept"))
    yield made
    made.runners.close()


def test_shards_of_a_head_share_one_collection_and_another_head_does_not(worker: Worker) -> None:
    first, report, _ = worker.run("head-1", ONE)
    second, again, _ = worker.run("head-1", TWO)
    assert report["collected"] == again["collected"] == 3
    assert first[ONE].splitlines()[0] == second[TWO].splitlines()[0]
    other, _, _ = worker.run("head-2", ONE)
    assert other[ONE].splitlines()[0] != first[ONE].splitlines()[0]
    # the same code under another device is collected anew
    capability = "capability:\n  name: little\n  device: spyre\n  dtypes: [float32]\n  ops: [add]\n"
    narrowed, _, _ = worker.run("head-2", ONE, capability=capability)
    assert narrowed[ONE].splitlines()[0] != other[ONE].splitlines()[0]


def test_a_file_that_loops_at_import_is_waited_for_once(worker: Worker) -> None:
    _, report, _ = worker.run("head-3", LOOP, ONE)
    messages, again, seconds = worker.run("head-3", LOOP, TWO)
    assert [e["file"] for e in report["errors"]] == [e["file"] for e in again["errors"]] == ["test/test_loops.py"]
    assert "took more than 4 s" in again["errors"][0]["message"]
    assert TWO in messages
    assert again["timings"]["collect_s"] < 4, seconds


def test_what_a_file_started_rests_between_two_shards(worker: Worker) -> None:
    worker.run("head-4", ONE)
    time.sleep(2)
    messages, _, _ = worker.run("head-4", PAUSE)
    # its thread does not live in the forked child, but the ticks of the collector do: none came while nobody ran it
    assert float(messages[PAUSE].split()[2]) > 1.5, messages


def test_a_warm_process_that_was_killed_has_a_successor_when_its_shard_has_ended(worker: Worker) -> None:
    spec = worker.tmp / "spec.json"
    spec.write_text(json.dumps({"runtime": {"kind": "tests-only"}, "tests": [ONE], "limits": {"collect_s": 4}}))
    read, write = os.pipe()
    with open(worker.tmp / "log", "wb") as log:
        running = worker.runners.run(Order(spec, worker.tree, write, log.fileno(), "head-5"))
    warm = worker.runners._warm[True]
    os.kill(warm._process.pid, signal.SIGKILL)
    assert running.wait(30), "a supervisor outlives the process that it was forked from"
    os.close(write)
    os.close(read)
    worker.runners.done(running)
    successor = worker.runners._warm[True]
    assert successor is not warm
    assert not successor.ended
    messages, _, _ = worker.run("head-5", ONE)
    assert ONE in messages
