"""A device's sheet and configs are stored once, however many shards were made with them."""

import pytest
from factories import make_run, shard_spec
from sqlalchemy import Engine, func, select, update

from relay.errors import NotFound
from relay.store import retention, setups, shards
from relay.store.schema import setup, shard
from relay.store.trunk import environment

TEST = "test/test_x.py::TestA::test_b"
CONFIGS = [{"name": "a.yaml", "text": "x" * 40_000 + "ä"}]
DAY = 86_400.0


def add(engine: Engine, *specs: dict, now: float = 100.0) -> list[dict]:
    """Shards of a new run; -> their specs as stored."""
    run = make_run(engine)
    with engine.begin() as conn:
        ids = shards.add(conn, dispatch_id=run, side="head", queue="q", specs=specs, now=now)
        return [conn.execute(select(shard.c.spec).where(shard.c.id == one)).scalar_one() for one in ids]


@pytest.mark.both_databases
def test_many_shards_hold_one_copy_and_a_lease_is_whole(engine: Engine) -> None:
    specs = [shard_spec(TEST, capability="sheet", configs=CONFIGS) for _ in range(50)]
    stored = add(engine, *specs)
    assert all(len(str(one)) < 400 for one in stored)
    with engine.connect() as conn:
        assert conn.execute(select(func.count()).select_from(setup)).scalar_one() == 1
        assert conn.execute(select(func.length(setup.c.body))).scalar_one() < 1000
        wire = setups.whole(conn, stored[0])
    assert wire == {name: value for name, value in specs[0].items() if name != "est_seconds"}
    assert environment(stored[0]) == environment(specs[0])


def test_other_configs_are_another_environment(engine: Engine) -> None:
    first, second = add(engine, shard_spec(TEST, configs=CONFIGS), shard_spec(TEST, configs=[]))
    assert environment(first) != environment(second)
    assert environment(first) == environment(shard_spec(TEST, configs=CONFIGS))


def test_a_stored_spec_is_used_again_as_it_is(engine: Engine) -> None:
    """Re-runs and searches take a shard's stored spec and change its tests."""
    (stored,) = add(engine, shard_spec(TEST, configs=CONFIGS))
    (again,) = add(engine, {**stored, "tests": ["test/test_x.py::TestA::test_c"], "est_seconds": 1.0})
    assert again["setup"] == stored["setup"]
    assert "configs" not in again


def test_what_no_shard_is_made_with_is_forgotten_and_that_is_said(engine: Engine) -> None:
    (stored,) = add(engine, shard_spec(TEST, configs=CONFIGS), now=0.0)
    add(engine, shard_spec(TEST, configs=CONFIGS), now=10 * DAY)  # in use until then
    with engine.begin() as conn:
        retention.drop_others(conn, 9 * DAY, 200 * DAY, 100)
        assert setups.whole(conn, stored)["configs"] == CONFIGS
        retention.drop_others(conn, 11 * DAY, 200 * DAY, 100)
        with pytest.raises(NotFound, match="no longer stored"):
            setups.whole(conn, stored)


def test_what_is_in_use_is_noted_once_an_hour(engine: Engine) -> None:
    (stored,) = add(engine, shard_spec(TEST, configs=CONFIGS), now=0.0)
    with engine.begin() as conn:
        conn.execute(update(setup).values(used_at=5.0))
        for now, noted in ((6.0, 5.0), (5.0 + setups.USED_S, 5.0), (6.0 + setups.USED_S, 6.0 + setups.USED_S)):
            setups.fold(conn, [shard_spec(TEST, configs=CONFIGS)], now)
            assert conn.execute(select(setup.c.used_at)).scalar_one() == noted
        assert setups.digest_of(stored) == conn.execute(select(setup.c.digest)).scalar_one()
