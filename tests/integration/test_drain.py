"""A worker that is told to stop: its shard ends, or another worker has it at once."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from factories import make_run, shard_spec
from sqlalchemy import Engine, update
from worker_process import workers
from worker_web import ADDS, SLOW, wait_for

from relay.errors import LeaseLost
from relay.services import leasing
from relay.settings import Settings
from relay.store import shards
from relay.store.db import reading
from relay.store.schema import dispatch


@pytest.mark.torch
@pytest.mark.broker
def test_a_worker_that_stops_ends_its_shard_or_hands_it_back(tmp_path: Path) -> None:
    with workers(tmp_path) as fleet:
        web = fleet.web
        fleet.start("patient", RELAY_WORKER_DRAIN_S="120")
        first = web.shard(SLOW, ADDS)
        fleet.send(first)
        wait_for(lambda: web.outcomes(first))
        second = web.shard(ADDS)
        fleet.send(second)  # waits behind the first, in the broker
        assert fleet.terminate("patient") == 0
        row = web.row(first)
        assert (row.state, row.fence, len(web.outcomes(first))) == ("done", 1, 7), fleet.said("patient")
        assert web.row(second).state == "queued", "a worker that stops takes nothing new"

        fleet.start("hasty")
        wait_for(lambda: web.row(second).state == "done")  # the message of before came back
        third = web.shard(SLOW)
        fleet.send(third)
        wait_for(lambda: web.outcomes(third))
        began = time.time()
        assert fleet.terminate("hasty") == 0
        row = web.row(third)
        assert (row.state, row.handed_back, row.lease_token) == ("queued", 1, None), fleet.said("hasty")
        assert began - 1 < row.due_at <= time.time(), "the pump hands it over at once"
        before = web.outcomes(third)
        assert 0 < len(before) < 5

        alive = tmp_path / "alive"
        fleet.start("next", RELAY_WORKER_SHARDS="1", RELAY_ALIVE_FILE=str(alive))
        assert alive.exists()
        fleet.send(third)
        fleet.send(second)  # done; a worker for one shard does not look at it
        assert fleet.processes.pop("next").wait(60) == 0, "it ends by itself, as a job of a cluster does"
        assert web.row(third).fence == 2
        assert set(web.outcomes(third).values()) == {"passed"}


@pytest.fixture
def leased(engine: Engine, tmp_path: Path) -> tuple[Settings, str, str, str]:
    settings = Settings(data_dir=tmp_path)
    run = make_run(engine)
    with engine.begin() as conn:
        (key,) = shards.add(
            conn, dispatch_id=run, side="head", queue="q", specs=[shard_spec("test/t.py::A::b")], now=1.0
        )
    return settings, run, key, str(leasing.take(engine, settings, key, "w1", 2.0)["token"])


@pytest.mark.both_databases
def test_handing_back_is_no_loss_however_often(engine: Engine, leased: tuple[Settings, str, str, str]) -> None:
    settings, _, key, token = leased
    for turn in range(shards.MAX_LEASES * 2):
        leasing.release(engine, key, token, 3.0 + turn)
        with pytest.raises(LeaseLost):
            leasing.release(engine, key, token, 3.0 + turn)
        token = leasing.take(engine, settings, key, "w2", 3.5 + turn)["token"]
    leasing.reap(engine, settings, 1000.0)
    with reading(engine) as conn:
        row = shards.get(conn, key)
    assert (row.state, row.handed_back) == ("queued", shards.MAX_LEASES * 2)


@pytest.mark.both_databases
def test_a_shard_of_a_run_that_is_over_is_not_queued_again(
    engine: Engine, leased: tuple[Settings, str, str, str]
) -> None:
    _, run, key, token = leased
    with engine.begin() as conn:
        conn.execute(update(dispatch).where(dispatch.c.id == run).values(state="superseded"))
    leasing.release(engine, key, token, 3.0)
    with reading(engine) as conn:
        row = shards.get(conn, key)
    assert (row.state, row.error) == ("failed", "its worker stopped, the run is superseded")
