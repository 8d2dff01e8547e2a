"""A worker whose disk is full takes no shard and says so; what it could not run for want of room, it hands back."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select
from worker_web import ADDS, FAILS, Relay, wait_for

from relay.store.db import reading
from relay.store.schema import worker
from relay.worker import agent, greeting, room
from relay.worker.trees import Trees

pytestmark = pytest.mark.torch
NO_DISK_HAS_MB = 1 << 40


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Relay]:
    with Relay(tmp_path) as server:
        server.config.folder.mkdir()
        yield server


def told(web: Relay, page: str) -> dict:
    with urllib.request.urlopen(f"http://127.0.0.1:{web.port}{page}.json", timeout=10) as answer:
        return json.loads(answer.read())


def known(web: Relay) -> list:
    with reading(web.engine) as conn:
        return [(row.name, "held" in row.info) for row in conn.execute(select(worker)).all()]


def test_a_shard_waits_for_room_and_the_pages_say_why(web: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    key = web.shard(ADDS)
    monkeypatch.setattr(room, "LEAST_MB", NO_DISK_HAS_MB)
    monkeypatch.setattr(greeting, "op_database", lambda folder: '{"torch": "2.13.0", "ops": []}')
    stop = threading.Event()
    threads = [
        threading.Thread(target=greeting.keep_greeting, args=(web.config, stop)),
        threading.Thread(target=agent.run_shard, args=(key, web.config, stop)),
    ]
    for thread in threads:
        thread.start()
    wait_for(lambda: known(web) == [("w1", True)])
    (queue,) = told(web, "/queues")["queues"]
    assert (queue["queued"], queue["alive"]) == (1, 0)
    assert queue["held"][0].startswith("its disk is full: ")
    notes = " ".join(told(web, "/index")["notes"])
    assert "1 shard in shards.spyre, and its worker takes none: its disk is full" in notes
    assert (web.row(key).state, web.row(key).fence) == ("queued", 0)
    monkeypatch.undo()
    monkeypatch.setattr(greeting, "op_database", lambda folder: '{"torch": "2.13.0", "ops": []}')
    threads[1].join(60)
    assert web.row(key).state == "done"
    wait_for(lambda: known(web) == [("w1", False)])
    stop.set()
    threads[0].join(10)


def test_what_could_not_be_run_for_want_of_room_is_handed_back(web: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    key = web.shard(ADDS, FAILS)

    def full(*_: object) -> Path:
        monkeypatch.setattr(room, "LEAST_MB", NO_DISK_HAS_MB)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Trees, "get", full)
        agent.run_shard(key, web.config)
    row = web.row(key)
    assert (row.state, row.fence, row.handed_back, row.error) == ("queued", 1, 1, None)
    monkeypatch.setattr(room, "LEAST_MB", 0)
    agent.run_shard(key, web.config)
    assert web.row(key).state == "done"
    assert set(web.outcomes(key).values()) == {"passed", "failed"}


def test_what_a_shard_filled_by_itself_is_its_own_failure(web: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is room again once its folder is gone: handing it back would run it for ever."""
    key = web.shard(ADDS)

    def full(*_: object) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Trees, "get", full)
    agent.run_shard(key, web.config)
    assert (web.row(key).state, web.row(key).handed_back) == ("failed", 0)
    assert "No space left" in web.row(key).error


def test_a_stop_ends_the_wait_for_room(web: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "LEAST_MB", NO_DISK_HAS_MB)
    stop = threading.Event()
    thread = threading.Thread(target=agent.run_shard, args=(web.shard(ADDS), web.config, stop))
    thread.start()
    time.sleep(0.1)
    stop.set()
    thread.join(30)
    assert not thread.is_alive()
