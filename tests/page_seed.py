"""A database as a busy year leaves it, for the pages: made by bulk inserts, the same for the same seed.

``Size()`` is 1,000,000 results in 5,000 runs of 200 backends. Words are invented; nothing in it is a measurement.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from page_seed_around import Around
from page_seed_runs import DAY, Runs, Size
from page_seed_upgrades import PAIR
from page_seed_upgrades import seed as seed_upgrades
from sqlalchemy import JSON, Engine, Table, text

from relay.artifacts import Artifacts
from relay.store import schema

__all__ = ["DAY", "SMALL", "Seeded", "Size", "again", "seed"]

SMALL = Size(runs=400, worker_runs=60, backends=40, results=24_000, tests=600, days=30)


@dataclass(frozen=True)
class Seeded:
    """Where to look: a run with results, the log of one of its failures, a run in progress, a pull request, a test, a
    backend, a pair of releases."""

    run: str
    log: str
    open_run: str
    pr: int
    test: str
    backend: str
    sha: str
    upgrade: str = PAIR


def seed(engine: Engine, size: Size, now: float, store: Artifacts | None = None, number: int = 7) -> Seeded:
    """Fills an empty, migrated database, and ``store`` with the ends of its failures' logs."""
    runs = Runs(size, now, random.Random(number), store)
    with engine.begin() as conn:
        load = _copy if engine.dialect.name == "postgresql" else _executemany
        for table, rows in _tables(runs):
            load(conn, table, rows)
        if engine.dialect.name == "postgresql":
            for table in ("decision", "result", "outbox", "quarantine", "proposal", "audit"):
                # what comes after it gets numbers after it
                conn.execute(text(f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), max(id)) FROM {table}"))
    seed_upgrades(engine, runs.tests, now, nights=min(size.days, 60), of_release=len(runs.tests))
    if engine.dialect.name == "postgresql":
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
            conn.execute(text("VACUUM ANALYZE"))  # autovacuum does that by itself
    return _seeded(runs)


def again(size: Size, now: float, number: int = 7) -> Seeded:
    """What ``seed`` answered for the same arguments."""
    return _seeded(Runs(size, now, random.Random(number), None))


def _executemany(conn: Any, table: Table, rows: Iterable[dict[str, Any]]) -> None:
    names = [column.name for column in table.columns]
    marks = ", ".join("?" for _ in names)
    quoted = ", ".join(f'"{name}"' for name in names)
    conn.connection.cursor().executemany(
        f'INSERT INTO "{table.name}" ({quoted}) VALUES ({marks})', _values(table, rows)
    )


def _copy(conn: Any, table: Table, rows: Iterable[dict[str, Any]]) -> None:
    quoted = ", ".join(f'"{column.name}"' for column in table.columns)
    with conn.connection.cursor().copy(f'COPY "{table.name}" ({quoted}) FROM STDIN') as copy:
        for row in _values(table, rows):
            copy.write_row(row)


def _values(table: Table, rows: Iterable[dict[str, Any]]) -> Iterator[tuple[Any, ...]]:
    plan = []
    for column in table.columns:
        default = None
        if column.default is not None and getattr(column.default, "is_scalar", False):
            default = column.default.arg
        elif column.default is not None and column.default.is_callable:
            default = []
        plan.append((column.name, isinstance(column.type, JSON), default))
    for row in rows:
        yield tuple(
            json.dumps(value) if is_json and value is not None else value
            for name, is_json, default in plan
            for value in [row.get(name, default)]
        )


def _tables(runs: Runs) -> Iterator[tuple[Table, Iterable[dict[str, Any]]]]:
    """Parents before children."""
    around = Around(runs)
    yield schema.delivery, around.deliveries()
    yield schema.dispatch, runs.dispatches
    yield schema.pull_request, around.pulls()
    yield schema.job, runs.jobs()
    yield schema.plan, runs.plans()
    yield schema.shard, runs.shards
    yield schema.result, runs.results()
    yield schema.log_tail, runs.tails
    yield schema.log_piece, runs.logs
    yield schema.decision, runs.decisions()
    yield schema.outbox, around.effects()
    yield schema.hud_row, around.hud_rows()
    yield schema.worker, around.workers()
    yield schema.level_proposal, around.levels()
    yield schema.quarantine, around.quarantined()
    yield schema.proposal, around.proposals()
    yield schema.test_name, around.names()
    yield schema.audit, around.audit()


def _seeded(runs: Runs) -> Seeded:
    done = [row for row in runs.ours if row["conclusion"] == "failure"]
    return Seeded(
        run=done[-1]["id"],
        log=f"/run/{done[-1]['id']}/log/{runs.failing_shard(done[-1])}",
        open_run=next(row["id"] for row in runs.ours if row["state"] == "running"),
        pr=done[-1]["pr_number"],
        test=runs.tests[0],
        backend=runs.backends[1],
        sha=done[-1]["head_sha"],
    )
