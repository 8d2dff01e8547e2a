"""The worker's agent against the real web process: a real git upstream, a real lease, a real runner."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select, update
from worker_web import ADDS, FAILS, SLOW, Relay, processes_of, wait_for

from relay.artifacts import artifacts
from relay.services import printing
from relay.store import results, shard_logs
from relay.store.db import reading
from relay.store.schema import dispatch, opdb, result, shard, worker
from relay.worker import agent, greeting

pytestmark = pytest.mark.torch


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Relay]:
    with Relay(tmp_path) as server:
        yield server


def test_a_shard_from_lease_to_completion(web: Relay) -> None:
    key = web.shard(ADDS, FAILS)
    agent.run_shard(key, web.config)
    assert web.outcomes(key) == {
        "test_adds_spyre_float32": "passed",
        "test_adds_spyre_int64": "passed",
        "test_fails_spyre": "failed",
    }
    row = web.row(key)
    assert (row.state, row.error) == ("done", None)
    assert row.report["collected"] >= 3
    assert row.report["meter"]["kernels"] > 0
    # what the tests printed is whole at the relay, and a failure says where it stands in it
    with reading(web.engine) as conn:
        size = shard_logs.end(conn, key, row.fence)
        failed = conn.execute(select(result).where(result.c.shard_id == key, result.c.outcome == "failed")).one()
    log = printing.window(web.engine, artifacts(web.settings), key, row.fence, 0, size)
    its = log[failed.log_begin : failed.log_end].decode()
    assert its.startswith(f"=== {FAILS.rpartition('::')[0]}::{failed.variant}: failed")
    assert failed.message.splitlines()[0] in its
    # done: a second message of the same shard changes nothing
    agent.run_shard(key, web.config)
    agent.run_shard("no-such-shard", web.config)
    assert web.row(key).fence == row.fence
    assert list((web.config.folder / "tmp").iterdir()) == []
    # the same commit again is not downloaded again
    (tree,) = (path for path in (web.config.folder / "trees").iterdir() if path.is_dir())
    made = tree.stat().st_ino
    agent.run_shard(web.shard(ADDS), web.config)
    assert (web.config.folder / "trees" / tree.name).stat().st_ino == made


def test_a_restart_of_the_web_process_loses_no_result(web: Relay) -> None:
    key = web.shard(SLOW, ADDS)
    thread = threading.Thread(target=agent.run_shard, args=(key, web.config))
    thread.start()
    wait_for(lambda: web.outcomes(key))
    web.kill()
    time.sleep(1.5)
    web.start()
    thread.join(60)
    assert not thread.is_alive()
    assert web.row(key).state == "done"
    assert web.row(key).fence == 1
    assert len(web.outcomes(key)) == 7
    assert set(web.outcomes(key).values()) == {"passed"}


def test_a_lost_lease_ends_the_runner_and_writes_nothing_more(web: Relay) -> None:
    key = web.shard(SLOW)
    thread = threading.Thread(target=agent.run_shard, args=(key, web.config))
    thread.start()
    wait_for(lambda: web.outcomes(key))
    with web.engine.begin() as conn:  # as if the lease had run out and another worker had it
        conn.execute(update(shard).where(shard.c.id == key).values(lease_token="taken", fence=2))
        seen = len(results.done_keys(conn, key))
    thread.join(15)
    assert not thread.is_alive()
    assert len(web.outcomes(key)) == seen < 5
    assert web.row(key).state == "leased"


def test_a_cancelled_run_ends_the_runner(web: Relay) -> None:
    key = web.shard(SLOW)
    thread = threading.Thread(target=agent.run_shard, args=(key, web.config))
    thread.start()
    wait_for(lambda: web.outcomes(key))
    with web.engine.begin() as conn:
        conn.execute(update(dispatch).where(dispatch.c.id == web.run_id).values(state="superseded"))
    thread.join(15)
    assert not thread.is_alive()
    assert web.row(key).state == "failed"
    assert "cancelled" in web.row(key).error


def test_a_stopping_worker_leaves_the_shard_to_the_next(web: Relay) -> None:
    key = web.shard(SLOW)
    stop = threading.Event()
    thread = threading.Thread(target=agent.run_shard, args=(key, web.config, stop))
    thread.start()
    wait_for(lambda: web.outcomes(key))
    stop.set()
    thread.join(60)
    assert not thread.is_alive()
    assert web.row(key).state == "queued", "it was handed back"


def test_hello_enrols_and_brings_the_op_database_once(web: Relay) -> None:
    assert greeting.hello(web.config)["opdb_wanted"] is True
    assert greeting.hello(web.config)["opdb_wanted"] is False
    with reading(web.engine) as conn:
        enrolled = conn.execute(select(worker)).one()
        assert conn.execute(select(opdb.c.torch)).scalar_one() == enrolled.torch
    assert enrolled.name == "w1"
    assert "overlay" in enrolled.runtimes


def test_kill_9_of_the_agents_process_takes_the_runner_along(web: Relay) -> None:
    key = web.shard(SLOW)
    code = (
        "from pathlib import Path; from relay.worker import agent; from relay.worker.config import WorkerConfig\n"
        f"config = WorkerConfig({web.config.url!r}, 'key', 'w2', folder=Path({str(web.config.folder)!r}))\n"
        f"agent.run_shard({key!r}, config)"
    )
    process = subprocess.Popen([sys.executable, "-c", code])
    mark = str(web.config.folder / "tmp")
    try:
        wait_for(lambda: web.outcomes(key))
        assert len(processes_of(mark)) >= 3  # supervisor, host, child
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    wait_for(lambda: not processes_of(mark), 5)
    # what it left behind goes with the next shard
    agent.run_shard(web.shard(ADDS), web.config)
    assert list((web.config.folder / "tmp").iterdir()) == []
