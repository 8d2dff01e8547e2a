"""No table grows without bound: old rows of every table go, what is still wanted stays."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from factories import make_delivery, make_run, shard_spec
from sqlalchemy import JSON, Boolean, Float, Integer, LargeBinary, func, insert, select, update

from relay import chores
from relay.services import retaining
from relay.settings import Settings
from relay.store import outbox as effects
from relay.store import retention, shards
from relay.store.db import migrate, open_engine, reading
from relay.store.schema import (
    job,
    log_piece,
    log_tail,
    metadata,
    outbox,
    result,
    shard,
    upgrade,
)

DAY = 86400.0
NOW = 2_000 * DAY
STATES = {
    "dispatch": "completed", "delivery": "routed", "outbox": "sent", "job": "completed", "shard": "done",
    "proposal": "gone", "bisection": "found", "upgrade": "completed", "rerun": "asked",
}  # fmt: skip


def value_of(column, at):
    """A value of the column's type; times are ``at``."""
    if isinstance(column.type, JSON):
        return {}
    if isinstance(column.type, LargeBinary):
        return b"x"
    if isinstance(column.type, Boolean):
        return False
    if isinstance(column.type, Float):
        return at if column.name == "at" or column.name.endswith(("_at", "until")) else 1.0
    if isinstance(column.type, Integer):
        return 900_001 if column.primary_key or column.foreign_keys else 1
    return (STATES.get(column.table.name) if column.name == "state" else None) or "x"


def fill(conn, at):
    """One row in every table, all of the same time; -> their names."""
    for table in metadata.sorted_tables:
        row = {c.name: value_of(c, at) for c in table.c if not c.nullable or c.name.endswith("_at") or c.foreign_keys}
        if table.name == "upgrade":
            row["kind"] = "nightly"
        conn.execute(insert(table).values(**row))
    return {table.name for table in metadata.sorted_tables}


def counts(engine):
    with reading(engine) as conn:
        return {t.name: conn.execute(select(func.count()).select_from(t)).scalar_one() for t in metadata.sorted_tables}


def test_of_every_table_old_rows_go_or_it_is_said_why_they_stay(engine):
    with engine.begin() as conn:
        names = fill(conn, NOW - 400 * DAY)
        for logs in (log_piece, log_tail):  # they go first
            conn.execute(logs.delete())
    retaining.forget(engine, Settings(), NOW)
    left = {name for name, number in counts(engine).items() if number}
    assert left == set(retention.FOR_GOOD)
    assert left < names


def test_the_same_on_a_shared_database(postgres):
    url = postgres.new_database()
    engine = open_engine(url)
    migrate(engine)
    try:
        old_run(engine)
        assert retaining.forget(engine, Settings(), NOW)["details"] == 1
        with engine.begin() as conn:
            fill(conn, NOW - 400 * DAY)
            for logs in (log_piece, log_tail):
                conn.execute(logs.delete())
        retaining.forget(engine, Settings(), NOW + 100 * DAY)
        assert {name for name, number in counts(engine).items() if number} == set(retention.FOR_GOOD)
    finally:
        engine.dispose()
        postgres.drop_database(url)


def test_of_every_table_young_rows_stay(engine):
    with engine.begin() as conn:
        names = fill(conn, NOW - 10 * DAY)
    retaining.forget(engine, Settings(), NOW)
    kept = {name for name, number in counts(engine).items() if number}
    assert names - kept == {"web_session"}  # it had expired


def test_every_table_is_in_the_docs():
    text = (Path(__file__).parents[2] / "docs" / "retention.md").read_text()
    told = {name for line in text.splitlines() if line.startswith("| `") for name in re.findall(r"`(\w+)`", line)}
    assert set(metadata.tables) <= told, set(metadata.tables) - told


def old_run(engine, **over):
    given = {"state": "completed", "created_at": NOW - 100 * DAY, "closed_at": NOW - 100 * DAY, **over}
    run = make_run(engine, delivery_id=make_delivery(engine, received_at=given["created_at"]), **given)
    with engine.begin() as conn:
        shards.add(conn, dispatch_id=run, side="head", queue="q", specs=[shard_spec("a.py::T::t")], now=NOW - 100 * DAY)
        row = conn.execute(select(shard).where(shard.c.dispatch_id == run)).one()
        conn.execute(
            insert(result).values(
                dispatch_id=run, shard_id=row.id, side="head", test="a.py::T::t", variant="v", mode="m", seconds=1.0,
                outcome="passed", fence=1, recorded_at=NOW - 100 * DAY,
            )
        )  # fmt: skip
        conn.execute(insert(job).values(id=run, dispatch_id=run, workflow="w", name="j", run_id="1", attempt=1,
                                        status="completed", version=1))  # fmt: skip
        about = {"key": run, "kind": "hud", "stream": run, "target": "h", "payload": {}}
        effects.enqueue(conn, **about, now=0.0, dispatch_id=run, job_id=run)

        conn.execute(update(outbox).values(state="sent", due_at=None))
    return run


def test_details_go_before_the_run(engine):
    run = old_run(engine)
    done = retaining.forget(engine, Settings(), NOW)
    assert (done["details"], done["runs"]) == (1, 0)
    left = counts(engine)
    assert (left["result"], left["shard"], left["dispatch"], left["job"], left["outbox"]) == (0, 0, 1, 1, 1)
    assert not any(retaining.forget(engine, Settings(), NOW).values())
    done = retaining.forget(engine, Settings(), NOW + 100 * DAY)
    assert (done["runs"], counts(engine)["dispatch"], counts(engine)["delivery"]) == (1, 0, 0), run


@pytest.mark.parametrize("wanted", ["open", "effect", "logs", "ends"])
def test_what_is_still_wanted_stays_however_old(engine, wanted):
    run = old_run(engine, state="running" if wanted == "open" else "completed")
    with engine.begin() as conn:
        if wanted == "effect":
            conn.execute(update(outbox).values(state="due"))
        if wanted == "logs":
            row = conn.execute(select(shard.c.id)).scalar_one()
            conn.execute(insert(log_piece).values(shard_id=row, fence=1, begin=0, size=1, stored_at=NOW))
        if wanted == "ends":
            row = conn.execute(select(shard.c.id)).scalar_one()
            conn.execute(insert(log_tail).values(shard_id=row, name="n", stored_at=NOW))
    retaining.forget(engine, Settings(), NOW + 900 * DAY)
    left = counts(engine)
    assert (left["dispatch"], left["delivery"]) == (1, 1), run
    assert left["result"] == (0 if wanted == "effect" else 1)


def test_more_than_a_batch_goes_in_one_look_and_never_all_at_once(engine, monkeypatch):
    for _ in range(retaining.RUNS * 2 + 1):
        old_run(engine)
    monkeypatch.setattr(retaining, "AT_ONCE", 2)
    assert retaining.forget(engine, Settings(), NOW)["details"] == retaining.RUNS * 2
    assert retaining.forget(engine, Settings(), NOW)["details"] == 1


def test_the_last_good_night_stays_whatever_its_age(engine):
    with engine.begin() as conn:
        for number, (night, good) in enumerate([("01", True), ("02", True), ("03", False)]):
            of = {"key": str(number), "kind": "nightly", "device": "spyre", "ref": "main", "new": "x", "night": night}
            over = {"state": "completed", "good": good, "created_at": 0.0, "closed_at": 0.0}
            rest = {"claim_until": 0.0, "attempts": 0, "tries": 0}
            conn.execute(insert(upgrade).values(id=str(number), **of, **over, **rest))
    retaining.forget(engine, Settings(), NOW)
    with reading(engine) as conn:
        assert conn.execute(select(upgrade.c.night)).scalars().all() == ["02"]


def test_the_dashboards_rows_go_by_their_own_setting(engine):
    with engine.begin() as conn:
        fill(conn, NOW - 100 * DAY)
    retaining.forget(engine, Settings(keep_hud_days=120.0), NOW)
    assert counts(engine)["hud_row"] == 1
    retaining.forget(engine, Settings(keep_hud_days=90.0), NOW)
    assert counts(engine)["hud_row"] == 0


def test_it_is_a_chore_of_its_own(engine):
    found = chores.long_chores_of(engine, Settings())
    assert chores.step(engine, found, NOW) == ["retention"]
