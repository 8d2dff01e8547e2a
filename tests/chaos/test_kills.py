"""``kill -9`` of any process, or a flushed or killed broker, in the middle of the demo's run: the verdict comes later,
and nothing else changes. The demo itself checks, from the receivers' side, that each effect happened exactly once."""

from __future__ import annotations

import os
import signal
import time

import pytest
from demo_run import DemoRun
from redis import Redis

pytestmark = [pytest.mark.chaos, pytest.mark.demo]

SELECTING = "select 1 from dispatch where executor = 'workers' and claim is not null"
LEASED = "select 1 from shard where state = 'leased'"
SOME_RESULTS = "select 1 where (select count(*) from result) >= 3"
ON_THE_BASE = "select 1 from shard where side = 'base' and state = 'leased'"


@pytest.fixture
def demo(tmp_path):
    run = DemoRun(tmp_path / "demo", "--once")
    yield run
    run.stop()


def finish(demo):
    """The demo's own checks: exit 0 means that every step happened once and the verdict is the right one."""
    code = demo.finish()
    assert code == 0, demo.said()
    keys = demo.rows("select test, variant, side, attempt from result group by 1, 2, 3, 4 having count(*) > 1")
    assert keys == [], "a run of a variant has two results"
    assert demo.rows("select id from outbox where state != 'sent'") == []
    assert demo.rows("select id from shard where state != 'done'") == []


@pytest.mark.parametrize(
    ("name", "when"),
    [
        ("relay", SELECTING),
        ("select", SELECTING),
        ("emulator", SOME_RESULTS),
        ("emulator", ON_THE_BASE),
        ("web", LEASED),
        ("web", SOME_RESULTS),
        ("pump", LEASED),
        ("broker", SELECTING),
    ],
)
def test_a_killed_process_costs_time_only(demo, name, when):
    pid = demo.ready()["pids"][name]
    demo.wait_for(lambda: demo.rows(when))
    os.kill(pid, signal.SIGKILL)
    finish(demo)
    said = (demo.folder / "logs" / "relay-up.log").read_text()
    assert f'"process": "{name}"' in said, "the process was not killed in time: the test showed nothing"


@pytest.mark.parametrize("when", [SELECTING, LEASED])
def test_a_flushed_broker_costs_time_only(demo, when):
    demo.ready()
    socket = next(demo.folder.glob("broker/*.sock"), None)
    assert socket is not None, "the test's folder is deep enough to need a temporary socket: shorten it"
    demo.wait_for(lambda: demo.rows(when))
    client = Redis(unix_socket_path=str(socket))
    for _ in range(5):
        client.flushall()
        time.sleep(0.2)
    finish(demo)
