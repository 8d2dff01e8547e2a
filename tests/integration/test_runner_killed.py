"""`kill -9` of any process that a shard is run by: what has an outcome is not run again, and the shard ends.

The worker's own end, after which another lease goes on, is in test_runner_celery; how long that takes:
``tests/bench/release.py``.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from worker_web import Relay, wait_for

from relay.artifacts import artifacts
from relay.services import printing
from relay.store import shard_logs
from relay.store.db import reading
from relay.worker import agent, sandbox
from relay.worker.runners import Runners

pytestmark = pytest.mark.torch
NUMBERS = range(6)
SOURCE = "import time\nfrom unittest import TestCase\n\n\nclass TestSmall(TestCase):\n" + "".join(
    f"    def test_{number}(self):\n        print({number})\n        time.sleep(0.3)\n\n" for number in NUMBERS
)
TESTS = [f"test/test_small.py::TestSmall::test_{number}" for number in NUMBERS]
BELOW_WARM = ("supervisor", "waits", "host", "collector", "test process")


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Relay]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("worker_web.SOURCE", SOURCE)
        with Relay(tmp_path_factory.mktemp("killed")) as server:
            yield server


@pytest.fixture(scope="module")
def runners(web: Relay) -> Iterator[Runners]:
    made = Runners(web.config.folder)
    made.start()
    yield made
    made.close()


def process(runners: Runners, name: str) -> int:
    """Its id: the warm process's children are one line."""
    (warm,) = [pid for pid in sandbox.descendants(os.getpid()) if b"--torch" in _command(pid) and _parent_is_ours(pid)]
    return warm if name == "warm" else sandbox.descendants(warm)[BELOW_WARM.index(name)]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _parent_is_ours(pid: int) -> bool:
    return f"PPid:\t{os.getpid()}\n" in Path(f"/proc/{pid}/status").read_text()


def printed(web: Relay, key: str) -> Counter[str]:
    """How often each variant came to an end, by what the shard's runners wrote."""
    fence = web.row(key).fence
    with reading(web.engine) as conn:
        size = shard_logs.end(conn, key, fence)
    log = printing.window(web.engine, artifacts(web.settings), key, fence, 0, size).decode()
    return Counter(re.findall(r"^=== \S+::(test_\d): ", log, re.M))


@pytest.mark.parametrize("name", ["warm", "supervisor", "host", "test process"])
def test_what_was_finished_is_not_run_again(web: Relay, runners: Runners, name: str) -> None:
    key = web.shard(*TESTS)
    thread = threading.Thread(target=agent.run_shard, args=(key, web.config, None, runners))
    thread.start()
    wait_for(lambda: len(web.outcomes(key)) >= 2)
    finished = set(web.outcomes(key))
    os.kill(process(runners, name), signal.SIGKILL)
    thread.join(120)
    row = web.row(key)
    assert (row.state, row.fence, row.error) == ("done", 1, None), "one lease is enough"
    outcomes = web.outcomes(key)
    assert len(outcomes) == len(TESTS)
    assert {variant: outcomes[variant] for variant in finished} == dict.fromkeys(finished, "passed")
    # what ran when its own process was killed has that outcome; a supervisor cannot say any, and its successor can
    lost = [variant for variant, outcome in outcomes.items() if outcome != "passed"]
    assert len(lost) <= (0 if name in ("warm", "supervisor") else 1), lost
    assert printed(web, key) == dict.fromkeys(outcomes, 1)


def test_a_web_process_that_is_killed_costs_nothing(web: Relay, runners: Runners) -> None:
    key = web.shard(*TESTS)
    thread = threading.Thread(target=agent.run_shard, args=(key, web.config, None, runners))
    thread.start()
    wait_for(lambda: len(web.outcomes(key)) >= 2)
    web.kill()
    time.sleep(1)
    web.start()
    thread.join(120)
    assert (web.row(key).state, web.row(key).fence) == ("done", 1)
    assert set(web.outcomes(key).values()) == {"passed"}
    assert printed(web, key) == dict.fromkeys(web.outcomes(key), 1)


def test_a_runner_that_is_killed_again_and_again_is_given_up(web: Relay, runners: Runners) -> None:
    key = web.shard(*TESTS)
    thread = threading.Thread(target=agent.run_shard, args=(key, web.config, None, runners))
    thread.start()
    for said in range(1, agent.RUNNERS + 1):
        wait_for(lambda more=said: len(web.outcomes(key)) >= more)
        os.kill(process(runners, "supervisor"), signal.SIGKILL)
    thread.join(60)
    row = web.row(key)
    assert (row.state, row.error) == ("failed", "the runner was killed")
    assert agent.RUNNERS <= len(web.outcomes(key)) < len(TESTS)
