"""A machine's clock that is stepped: what waited goes on waiting as long as it had to, and who was alive still is."""

from __future__ import annotations

import pytest
from factories import make_delivery, make_run, shard_spec
from sqlalchemy import select, update
from two_clocks import Clocks

from relay.services import leasing
from relay.services.stepping import AFTER_S, Steps
from relay.settings import Settings
from relay.store import outbox, shards, workers
from relay.store.db import reading
from relay.store.schema import delivery, dispatch, shard
from relay.store.schema import outbox as outbox_table

HOUR = 3600.0
NOW = 1_000_000.0
pytestmark = pytest.mark.both_databases


@pytest.fixture
def clocks():
    return Clocks(NOW)


@pytest.fixture
def steps(clocks):
    return Steps(lambda: clocks.wall, lambda: clocks.monotonic)


@pytest.fixture
def settings(tmp_path):
    return Settings(data_dir=tmp_path)


@pytest.fixture
def leased(engine, settings):
    """A shard under a lease that was just given, of a worker that was just heard of."""
    run = make_run(engine)
    with engine.begin() as conn:
        (key,) = shards.add(conn, dispatch_id=run, side="head", queue="q", specs=[shard_spec("t.py::A::test")], now=NOW)
        shards.lease(conn, key, worker="w", now=NOW, lease_s=settings.lease_s)
        workers.hello(conn, {"name": "w", "device": "spyre", "queue": "q", "torch": "2.13.0", "runtimes": [],
                             "info": {}}, NOW)  # fmt: skip
    return key


def one(engine, table, column, key):
    with reading(engine) as conn:
        return conn.execute(select(table.c[column]).where(table.c.id == key)).scalar_one()


def test_time_that_just_goes_by_is_no_step(engine, steps, clocks, settings):
    for seconds in (0.1, 5.0, 600.0):
        clocks.pass_(seconds)
        assert steps.look(engine, settings.lease_s) is False
    clocks.wall += 1.0  # slewed
    assert steps.look(engine, settings.lease_s) is False


def test_set_back_what_waits_a_moment_does_not_wait_an_hour(engine, steps, clocks, settings):
    make_delivery(engine, id="d", state="received", due_at=NOW + 5)
    make_run(engine, id="r", state="selecting", due_at=NOW + 5)
    with engine.begin() as conn:
        outbox.enqueue(conn, key="k", kind="hud", stream="s", target="t", payload={}, now=NOW)
        outbox.postpone(conn, [1], NOW + 9, "waits: x asked for time")
    clocks.wall -= HOUR
    assert steps.look(engine, settings.lease_s) is True
    assert one(engine, delivery, "due_at", "d") == clocks.wall + 5
    assert one(engine, dispatch, "due_at", "r") == clocks.wall + 5
    assert one(engine, outbox_table, "not_before", 1) == clocks.wall + 9


def test_set_back_a_lost_worker_is_found_out_as_soon_as_ever(engine, steps, clocks, settings, leased):
    clocks.wall -= HOUR
    steps.look(engine, settings.lease_s)
    assert one(engine, shard, "lease_until", leased) == clocks.wall + settings.lease_s
    leasing.reap(engine, settings, clocks.wall + settings.lease_s + 1)
    assert one(engine, shard, "state", leased) == "queued"


def test_times_of_before_that_are_written_after_the_step_are_set_right_too(engine, steps, clocks, settings):
    before = clocks.wall
    clocks.wall -= HOUR
    steps.look(engine, settings.lease_s)
    make_delivery(engine, id="late", state="received", due_at=before + 5)  # its transaction began before the step
    make_delivery(engine, id="waits", state="received", due_at=clocks.wall + 300)  # this one means it
    clocks.pass_(AFTER_S / 2)
    assert steps.look(engine, settings.lease_s) is False
    assert one(engine, delivery, "due_at", "late") == before - HOUR + 5
    assert one(engine, delivery, "due_at", "waits") == NOW - HOUR + 300


def test_set_back_while_no_pump_ran(engine, clocks, settings):
    make_delivery(engine, id="d", state="received", due_at=NOW + 5)
    clocks.wall -= HOUR
    fresh = Steps(lambda: clocks.wall, lambda: clocks.monotonic)
    fresh.began(engine, settings.lease_s, None)
    assert one(engine, delivery, "due_at", "d") == NOW + 5
    fresh.began(engine, settings.lease_s, NOW)
    assert one(engine, delivery, "due_at", "d") == clocks.wall + 5


def test_set_forward_nobody_loses_a_lease_and_no_wait_that_was_asked_for_is_cut(
    engine, steps, clocks, settings, leased
):
    with engine.begin() as conn:
        for key in "abc":
            outbox.enqueue(conn, key=key, kind="hud", stream=key, target="t", payload={}, now=NOW)
        outbox.postpone(conn, [1], NOW + 50, "waits: t asked for time")
        under_way = conn.execute(select(outbox_table).where(outbox_table.c.id == 2)).one()
        assert outbox.claim(conn, under_way, NOW)
        conn.execute(
            update(outbox_table)
            .where(outbox_table.c.id == 3)
            .values(attempts=2, not_before=NOW + 200, due_at=NOW + 200, last_error="server-error: 502")
        )
    clocks.wall += HOUR
    assert steps.look(engine, settings.lease_s) is True
    leasing.reap(engine, settings, clocks.wall)
    assert one(engine, shard, "state", leased) == "leased"
    with reading(engine) as conn:
        assert [row.name for row in workers.all_alive(conn, clocks.wall)] == ["w"]
    assert one(engine, outbox_table, "not_before", 1) == clocks.wall + 50
    assert one(engine, outbox_table, "not_before", 2) == clocks.wall + outbox.CLAIM_S
    assert one(engine, outbox_table, "not_before", 3) < clocks.wall
