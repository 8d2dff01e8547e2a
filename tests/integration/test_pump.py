"""The pump against a real broker: what is due arrives, what the broker loses comes back."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import time

import pytest
from factories import make_delivery, make_run, shard_spec
from redis import Redis
from sqlalchemy import select, update

from relay import broker, pump
from relay.queue import engines
from relay.queue.app import make_app
from relay.settings import Settings
from relay.store import due, outbox, shards
from relay.store.db import reading
from relay.store.schema import delivery, dispatch, shard
from relay.store.schema import outbox as outbox_table

pytestmark = pytest.mark.broker


@pytest.fixture
def server(tmp_path):
    """A Valkey (or Redis) of this test's own; yields (Celery's URL, client, process)."""
    made = broker.prepare(tmp_path)
    process = subprocess.Popen(made.command, stdout=subprocess.DEVNULL)
    client = Redis(unix_socket_path=str(made.socket))
    for _ in range(200):
        if made.socket.exists():
            break
        time.sleep(0.02)
    client.ping()
    yield made.url, client, process
    client.close()
    process.kill()
    process.wait()
    made.remove()


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def pumping(engine, tmp_path, server):
    url, client, _ = server
    settings = Settings(data_dir=tmp_path, broker_url=url)
    clock = Clock()
    app = make_app(url, ("shards.spyre",))
    made = pump.Pump(
        engine, settings, pump.make_sender(app, url), engines.make_mark(url), engines.make_depth(app, url), clock
    )
    yield made, clock, client
    app.close()


def waiting(client, queue):
    return [
        (json.loads(raw)["headers"]["task"], json.loads(raw)["headers"]["argsrepr"])
        for raw in client.lrange(queue, 0, -1)
    ]


def test_due_rows_of_every_kind_reach_their_queues(engine, pumping):
    made, clock, client = pumping
    make_delivery(engine, id="d1", state="received", due_at=999.0)
    make_run(engine, id="r1", state="selecting", due_at=999.0)
    run = make_run(engine, id="r2", state="verifying", due_at=999.0)
    with engine.begin() as conn:
        (shard_id,) = shards.add(
            conn,
            dispatch_id=run,
            side="head",
            queue="shards.spyre",
            specs=[shard_spec("test/a.py::A::test_b")],
            now=1.0,
        )
        outbox.enqueue(conn, key="k", kind="hud", stream="s", target="t", payload={}, now=999.0)
    made.step()
    # a queue's newest message stands at the left
    assert waiting(client, "route") == [("relay.route", "['d1']"), ("relay.conclude", "['r2']")]
    assert waiting(client, "select") == [("relay.select", "['r1']")]
    assert waiting(client, "shards.spyre") == [("relay.run_shard", f"['{shard_id}']")]
    assert waiting(client, "outbox") == [("relay.send", "['1']")]
    clock.now += 0.1
    made.step()
    assert len(waiting(client, "route")) == 2, "what was handed over is not handed over again at once"


def test_what_nobody_does_is_handed_over_again_ever_more_slowly(engine, pumping):
    made, clock, client = pumping
    make_delivery(engine, id="d1", state="received", due_at=999.0)
    handed = []
    for _ in range(600):
        before = len(waiting(client, "route"))
        made.step()
        if len(waiting(client, "route")) > before:
            handed.append(clock.now)
        clock.now += 1.0
    gaps = [b - a for a, b in itertools.pairwise(handed)]
    assert gaps[0] == made.settings.requeue_s
    assert gaps == sorted(gaps)
    assert len(handed) < 10


def test_a_flushed_broker_gets_everything_outstanding_again(engine, pumping):
    made, clock, client = pumping
    for n in range(5):
        make_delivery(engine, id=f"d{n}", state="received", due_at=999.0)
    made.step()
    clock.now += 1.5
    made.step()
    assert len(waiting(client, "route")) == 5
    client.flushall()
    clock.now += 1.5
    made.step()
    assert sorted(waiting(client, "route")) == [("relay.route", f"['d{n}']") for n in range(5)]


def test_a_broker_that_is_away_costs_time_and_nothing_else(engine, tmp_path, pumping, server):
    made, clock, _ = pumping
    process = server[2]
    process.kill()
    process.wait()
    make_delivery(engine, id="d1", state="received", due_at=999.0)
    assert made.step() == 0
    again = broker.prepare(tmp_path)
    restarted = subprocess.Popen(again.command, stdout=subprocess.DEVNULL)
    try:
        for _ in range(200):
            if again.socket.exists():
                break
            time.sleep(0.02)
        clock.now += 1.5
        made.step()
        assert waiting(Redis(unix_socket_path=str(again.socket)), "route") == [("relay.route", "['d1']")]
    finally:
        restarted.kill()
        restarted.wait()


def test_a_lost_worker_s_shard_is_queued_within_ten_seconds(engine, pumping):
    made, clock, client = pumping
    run = make_run(engine)
    with engine.begin() as conn:
        (shard_id,) = shards.add(
            conn,
            dispatch_id=run,
            side="head",
            queue="shards.spyre",
            specs=[shard_spec("test/a.py::A::test_b")],
            now=1.0,
        )
        shards.lease(conn, shard_id, worker="w", now=clock.now, lease_s=made.settings.lease_s)
    made.step()
    assert waiting(client, "shards.spyre") == []
    clock.now += 10.0
    made.step()
    assert waiting(client, "shards.spyre") == [("relay.run_shard", f"['{shard_id}']")]
    with reading(engine) as conn:
        assert conn.execute(select(shard.c.state)).scalar_one() == "queued"


def test_a_selection_that_is_under_way_is_not_started_again_by_a_flush(engine, pumping):
    made, clock, client = pumping
    make_run(engine, id="r1", state="selecting", due_at=clock.now + 9, claim="c" * 32)
    client.flushall()
    made.step()
    assert waiting(client, "select") == []
    clock.now += 10
    made.step()
    assert waiting(client, "select") == [("relay.select", "['r1']")], "its claim ran out: the process is gone"
    with reading(engine) as conn:
        assert conn.execute(select(dispatch.c.claim)).scalar_one() is None, "the next process can claim it"


def test_effects_that_back_off_keep_their_backoff_after_a_flush(engine, pumping):
    made, clock, client = pumping
    with engine.begin() as conn:
        outbox.enqueue(conn, key="k", kind="hud", stream="s", target="t", payload={}, now=999.0)
        conn.execute(update(outbox_table).values(not_before=clock.now + 60, due_at=clock.now + 60))
    client.flushall()
    made.step()
    assert waiting(client, "outbox") == []


def test_the_socket_of_a_deep_folder_lies_in_a_short_one(tmp_path):
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    made = broker.prepare(deep)
    try:
        assert len(os.fsencode(made.socket)) < 108
        assert not made.folder.is_relative_to(deep)
    finally:
        made.remove()
    assert not made.folder.exists()


def test_a_delivery_that_is_done_is_not_due(engine, pumping):
    made, _, client = pumping
    make_delivery(engine, id="d1", state="routed", due_at=None)
    made.step()
    assert waiting(client, "route") == []
    with reading(engine) as conn:
        assert conn.execute(select(delivery.c.state)).scalar_one() == "routed"


def test_a_backlog_waits_in_the_database_and_not_twice_in_the_broker(engine, pumping):
    made, clock, client = pumping
    with engine.begin() as conn:
        for n in range(350):
            outbox.enqueue(conn, key=f"k{n}", kind="hud", stream=f"s{n}", target="t", payload={}, now=999.0)
    for _ in range(200):  # twenty seconds in which nobody works
        made.step()
        clock.now += 0.1
    assert client.llen("outbox") == pump.WINDOWS["outbox"]
    done = set()
    while len(done) < 350:
        calls = [json.loads(args.replace("'", '"')) for _, args in waiting(client, "outbox")]
        assert len(calls) <= pump.WINDOWS["outbox"]
        assert max(map(len, calls)) == due.SENT_TOGETHER
        ids = [int(one) for call in calls for one in call]
        assert len(ids) == len(set(ids))
        assert ids, "the queue is filled up as it empties"
        client.delete("outbox")
        with engine.begin() as conn:
            for key in set(ids) - done:
                outbox.mark_sent(conn, key, status=200, response=None, now=clock.now)
        done |= set(ids)
        clock.now += 0.1
        made.step()
    assert len(done) == 350


def test_verdicts_stand_before_new_deliveries(engine, pumping):
    made, _, client = pumping
    for n in range(pump.WINDOW + 50):
        make_delivery(engine, id=f"d{n}", state="received", due_at=999.0)
    make_run(engine, id="r1", state="verifying", due_at=999.5)
    made.step()
    tasks = [task for task, _ in waiting(client, "route")]
    assert len(tasks) == pump.WINDOW
    assert tasks.count("relay.conclude") == 1
