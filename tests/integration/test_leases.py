"""Leases against a real database: one holder at a time, and nothing from a holder that lost it."""

from __future__ import annotations

import threading

import pytest
from factories import make_run, result_line, shard_spec
from sqlalchemy import select

from relay.errors import Conflict, LeaseLost, NotFound
from relay.services import leasing
from relay.settings import Settings
from relay.store import results, shards
from relay.store.db import reading
from relay.store.schema import dispatch, job, outbox, result, shard
from selector.model import Side

TEST = "test/test_x.py::TestA::test_b"


@pytest.fixture
def settings(tmp_path):
    return Settings(data_dir=tmp_path, hud_url="http://127.0.0.1:9/hud")


@pytest.fixture
def run_id(engine):
    return make_run(engine)


def add(engine, run_id, count=1):
    with engine.begin() as conn:
        return shards.add(
            conn, dispatch_id=run_id, side="head", queue="shards.spyre", specs=[shard_spec(TEST)] * count, now=100.0
        )


def row(engine, table, key):
    with reading(engine) as conn:
        return conn.execute(select(table).where(table.c.id == key)).one()


def test_a_lease_hands_out_the_shard_and_starts_the_run(engine, settings, run_id):
    (shard_id,) = add(engine, run_id)
    lease = leasing.take(engine, settings, shard_id, "w1", 101.0)
    assert lease["fence"] == 1
    assert lease["done"] == []
    assert lease["shard"]["tests"] == [TEST]
    assert lease["shard"]["id"] == shard_id
    assert lease["shard"]["limits"]["variant_s"] == settings.variant_timeout_s
    assert row(engine, dispatch, run_id).started_at == 101.0
    with reading(engine) as conn:
        assert conn.execute(select(job.c.status).where(job.c.dispatch_id == run_id)).scalar_one() == "in_progress"
        kinds = set(conn.execute(select(outbox.c.kind).where(outbox.c.dispatch_id == run_id)).scalars())
    assert kinds == {"check_run", "hud"}


def test_only_one_of_many_workers_gets_the_lease(engine, settings, run_id):
    (shard_id,) = add(engine, run_id)
    got, refused = [], []

    def take(name):
        try:
            got.append(leasing.take(engine, settings, shard_id, name, 101.0))
        except Conflict as exc:
            refused.append(exc)

    threads = [threading.Thread(target=take, args=(f"w{i}",)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(got) == 1
    assert len(refused) == 7


def test_a_worker_that_returns_after_its_lease_was_given_away_changes_nothing(engine, settings, run_id):
    (shard_id,) = add(engine, run_id)
    old = leasing.take(engine, settings, shard_id, "w1", 100.0)["token"]
    leasing.record(engine, settings, shard_id, old, [result_line()], 101.0)
    leasing.reap(engine, settings, 101.0 + settings.lease_s + 0.1)
    new = leasing.take(engine, settings, shard_id, "w2", 120.0)
    assert new["fence"] == 2
    assert new["done"] == ["test/test_x.py::TestA::test_b_spyre_float32"]
    for late in (
        lambda: leasing.record(engine, settings, shard_id, old, [result_line("test_b_spyre_int64")], 121.0),
        lambda: leasing.beat(engine, settings, shard_id, old, 121.0),
        lambda: leasing.complete(engine, settings, shard_id, old, status="done", error=None, report={}, now=121.0),
    ):
        with pytest.raises(LeaseLost):
            late()
    with reading(engine) as conn:
        assert len(conn.execute(select(result)).all()) == 1
    assert row(engine, shard, shard_id).worker == "w2"


def test_heartbeats_and_results_keep_a_lease(engine, settings, run_id):
    (shard_id,) = add(engine, run_id)
    token = leasing.take(engine, settings, shard_id, "w1", 100.0)["token"]
    for beat in range(1, 30):
        now = 100.0 + beat * settings.heartbeat_s
        if beat % 2:
            assert leasing.beat(engine, settings, shard_id, token, now)["cancel"] is False
        else:
            leasing.record(engine, settings, shard_id, token, [result_line(f"test_b_spyre_{beat}")], now)
        leasing.reap(engine, settings, now + settings.heartbeat_s * 2.5)
    assert row(engine, shard, shard_id).fence == 1


def test_results_sent_twice_count_once_and_the_first_stands(engine, settings, run_id):
    (shard_id,) = add(engine, run_id)
    token = leasing.take(engine, settings, shard_id, "w1", 100.0)["token"]
    assert leasing.record(engine, settings, shard_id, token, [result_line(), result_line("v2")], 101.0) == {
        "accepted": 2,
        "known": 0,
    }
    again = [result_line(outcome="failed"), result_line("v3")]
    assert leasing.record(engine, settings, shard_id, token, again, 102.0) == {"accepted": 1, "known": 1}
    with reading(engine) as conn:
        stored = {r.variant: r.outcome.value for r in results.of_side(conn, run_id, Side.HEAD)}
    assert stored == {"test_b_spyre_float32": "passed", "v2": "passed", "v3": "passed"}


def test_the_last_shard_makes_the_verdict_due_once(engine, settings, run_id):
    first, second = add(engine, run_id, 2)
    for shard_id, expected in ((first, "running"), (second, "verifying")):
        token = leasing.take(engine, settings, shard_id, "w1", 100.0)["token"]
        leasing.complete(engine, settings, shard_id, token, status="done", error=None, report={}, now=110.0)
        assert row(engine, dispatch, run_id).state == expected
    assert row(engine, dispatch, run_id).due_at == 110.0


def test_a_shard_that_takes_every_worker_down_is_given_up(engine, settings, run_id):
    (shard_id,) = add(engine, run_id)
    now = 100.0
    for _ in range(shards.MAX_LEASES):
        leasing.take(engine, settings, shard_id, "w1", now)
        now += settings.lease_s + 1
        leasing.reap(engine, settings, now)
    assert row(engine, shard, shard_id).state == "failed"
    assert "5 workers were lost" in row(engine, shard, shard_id).error
    assert row(engine, dispatch, run_id).state == "verifying"
    with pytest.raises(Conflict):
        leasing.take(engine, settings, shard_id, "w1", now)


def test_a_superseded_run_cancels_its_worker(engine, settings, run_id):
    (shard_id,) = add(engine, run_id)
    token = leasing.take(engine, settings, shard_id, "w1", 100.0)["token"]
    with engine.begin() as conn:
        conn.execute(dispatch.update().values(state="superseded"))
    assert leasing.beat(engine, settings, shard_id, token, 101.0)["cancel"] is True


def test_a_lost_worker_of_a_superseded_run_leaves_no_shard_behind(engine, settings, run_id):
    (shard_id,) = add(engine, run_id)
    leasing.take(engine, settings, shard_id, "w1", 100.0)
    with engine.begin() as conn:
        conn.execute(dispatch.update().values(state="superseded"))
    leasing.reap(engine, settings, 100.0 + settings.lease_s + 1)
    found = row(engine, shard, shard_id)
    assert (found.state, found.due_at) == ("failed", None), "or the pump would offer it for ever"
    assert row(engine, dispatch, run_id).state == "superseded"


def test_a_worker_that_is_heard_of_at_the_last_moment_keeps_its_lease(engine, settings, run_id):
    (shard_id,) = add(engine, run_id)
    token = leasing.take(engine, settings, shard_id, "w1", 100.0)["token"]
    late = 100.0 + settings.lease_s + 1
    with reading(engine) as conn:
        assert shards.lost(conn, late) == [shard_id]
    leasing.beat(engine, settings, shard_id, token, late)  # between the reaper's look and its deed
    with engine.begin() as conn:
        assert shards.take_back(conn, shard_id, late) is None
    assert leasing.beat(engine, settings, shard_id, token, late + 1)["cancel"] is False


def test_an_unknown_shard_is_said(engine, settings):
    with pytest.raises(NotFound, match="no shard nope"):
        leasing.take(engine, settings, "nope", "w1", 100.0)


def test_the_first_failure_of_the_changes_side_is_timed_once(engine, settings, run_id):
    (head,) = add(engine, run_id)
    with engine.begin() as conn:
        (base,) = shards.add(
            conn, dispatch_id=run_id, side="base", queue="shards.spyre", specs=[shard_spec(TEST)], now=100.0
        )
    tokens = {key: leasing.take(engine, settings, key, f"w-{key}", 100.0)["token"] for key in (head, base)}
    failed = result_line("v2", outcome="timed_out")
    for key, lines, at, first in (
        (base, [failed], 101.0, None),  # of the commit that the change is compared with: no failure of the change's
        (head, [result_line(), result_line("v1", outcome="xfailed")], 102.0, None),
        (head, [failed], 107.5, 107.5),
        (head, [failed, result_line("v3", outcome="failed")], 109.0, 107.5),
    ):
        leasing.record(engine, settings, key, tokens[key], lines, at)
        assert row(engine, dispatch, run_id).first_failed_at == first
    assert row(engine, dispatch, run_id).started_at == 100.0
