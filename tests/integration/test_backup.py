"""A backup is one state of everything, and a restored database is that state: on SQLite, on PostgreSQL, and from one to
the other."""

from __future__ import annotations

import itertools
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from factories import make_delivery, make_run
from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Engine,
    Float,
    LargeBinary,
    Table,
    func,
    insert,
    null,
    select,
)
from sqlalchemy import types as sqltypes

from relay.cli import backup as command
from relay.errors import BadRequest, Conflict
from relay.store import backup, outbox
from relay.store.db import migrate, open_engine, reading
from relay.store.schema import delivery, dispatch, metadata

_numbers = itertools.count(1)


@pytest.fixture
def new_database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str], Engine]]:
    """Makes migrated databases of a kind."""
    made: list[tuple[Engine, Callable[[], None]]] = []

    def make(kind: str) -> Engine:
        if kind == "postgresql":
            cluster = request.getfixturevalue("postgres")
            url = cluster.new_database()
            engine = open_engine(url)
            made.append((engine, lambda: cluster.drop_database(url)))
        else:
            engine = open_engine(f"sqlite:///{tmp_path / f'{next(_numbers)}.sqlite3'}")
            migrate(engine)
            made.append((engine, lambda: None))
        return engine

    yield make
    for engine, drop in made:
        engine.dispose()
        drop()


def value_of(column: Column[Any], known: dict[str, list[dict[str, Any]]], number: int) -> Any:
    """Something of the column's type, odd where it can be."""
    for key in column.foreign_keys:
        return known[key.column.table.name][number - 1][key.column.name]
    kind = column.type
    if isinstance(kind, JSON):
        return [{"n": 0.1 + number, "t": "zeile\n\u2028 'x'"}, [], 5, "5", None][number % 5]
    if isinstance(kind, LargeBinary):
        return bytes(range(256)) * (number % 3)
    if isinstance(kind, Boolean):
        return number % 2 == 0
    if isinstance(kind, Float):
        return 1790000000.123456 + number / 7
    if isinstance(kind, sqltypes.Integer):
        return number * 3
    length = getattr(kind, "length", None)
    return f'é\U0001f600\\"{number}'[: length or 100] if length is None or length > 8 else str(number)


def fill(engine: Engine) -> dict[str, int]:
    """Two rows in every table, and one whose empty columns are empty; -> rows by table."""
    known: dict[str, list[dict[str, Any]]] = {}
    with engine.begin() as conn:
        for table in metadata.sorted_tables:
            rows = []
            for number in (1, 2, 3):
                row = {
                    c.name: null() if number == 3 and c.nullable and not c.foreign_keys else value_of(c, known, number)
                    for c in table.columns
                }
                if table.name == "outbox":
                    row["state"] = "due"
                conn.execute(insert(table).values(**row))
                rows.append(row)
            known[table.name] = rows
    return {name: len(rows) for name, rows in known.items()}


def content(engine: Engine, table: Table, *, without: frozenset[str]) -> list[dict[str, Any]]:
    columns = [c for c in table.columns if c.name not in without]
    empty = [c.is_(null()).label(f"{c.name} is empty") for c in columns]
    with reading(engine) as conn:
        rows = conn.execute(select(*columns, *empty).order_by(*table.primary_key.columns)).mappings().all()
    return [dict(row) for row in rows]


CHANGED = {"outbox": frozenset({"ambiguous", "due_at"})}
"""What a restore changes: see test_effects_that_were_due_come_back_in_doubt."""
MADE_DUE = frozenset({"due_at", "attempts"})


@pytest.mark.parametrize(("of", "to"), list(itertools.product(["sqlite", "postgresql"], repeat=2)))
def test_a_restored_database_is_the_one_that_was_saved(new_database: Any, tmp_path: Path, of: str, to: str) -> None:
    source, target = new_database(of), new_database(to)
    rows = fill(source)
    saved = backup.save(source, tmp_path / "relay.zip", 5.0)
    assert saved.rows == rows
    restored = backup.restore(target, tmp_path / "relay.zip", 6.0)
    assert restored == saved
    for table in metadata.sorted_tables:
        without = CHANGED.get(table.name, frozenset())
        if table.name in ("delivery", "shard", "upgrade", "dispatch"):
            without = MADE_DUE
        assert content(target, table, without=without) == content(source, table, without=without), table.name
    with target.begin() as conn:  # and it counts on
        outbox.enqueue(conn, key="new", kind="hud", stream="s", target="t", payload={}, now=7.0)
    assert not list(tmp_path.glob("*.part"))


def test_a_backup_beside_the_traffic_is_one_state(new_database: Any, tmp_path: Path) -> None:
    """Each run is written with its delivery: a backup that has the one and not the other is no state that there was."""
    for kind in ("sqlite", "postgresql"):
        engine, target = new_database(kind), new_database(kind)
        stop, written = threading.Event(), itertools.count(1)

        def write(engine: Engine = engine, stop: threading.Event = stop, written: Any = written) -> None:
            while not stop.is_set():
                make_run(engine, delivery_id=make_delivery(engine))
                next(written)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for turn in range(5):
                backup.save(engine, tmp_path / f"{kind}{turn}.zip", 1.0)
        finally:
            stop.set()
            writer.join()
        assert next(written) > 5
        backup.restore(target, tmp_path / f"{kind}4.zip", 2.0)  # foreign keys are checked as it goes
        with reading(target) as conn:
            runs = conn.execute(select(func.count()).select_from(dispatch)).scalar_one()
            deliveries = conn.execute(select(func.count()).select_from(delivery)).scalar_one()
        assert 0 <= deliveries - runs <= 1


@pytest.mark.both_databases
def test_effects_that_were_due_come_back_in_doubt(engine: Engine, tmp_path: Path, new_database: Any) -> None:
    with engine.begin() as conn:
        outbox.enqueue(conn, key="k", kind="check_run", stream="s", target="o/r", payload={}, now=1.0)
    backup.save(engine, tmp_path / "b.zip", 2.0)
    target = new_database("sqlite")
    backup.restore(target, tmp_path / "b.zip", 3.0)
    with reading(target) as conn:
        (row,) = outbox.sendable(conn, [1], 4.0)
    assert row.ambiguous


def test_what_cannot_be_restored_is_refused_and_changes_nothing(new_database: Any, tmp_path: Path) -> None:
    source, target = new_database("sqlite"), new_database("sqlite")
    make_run(source)
    whole = tmp_path / "whole.zip"
    backup.save(source, whole, 1.0)
    with pytest.raises(Conflict, match="the database is not empty: delivery has rows"):
        backup.restore(source, whole, 2.0)
    broken = tmp_path / "broken.zip"
    with zipfile.ZipFile(whole) as old, zipfile.ZipFile(broken, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            new.writestr(name, data.replace(b"routed", b"rooted") if "delivery" in name else data)
    with pytest.raises(BadRequest, match="table delivery is damaged"):
        backup.restore(target, broken, 2.0)
    (tmp_path / "text.zip").write_text("no zip")
    manifests = {
        "nojson": b"{",
        "bytes": b"\xff",
        "list": b"[1]",
        "foreign": b'{"format": 0}',
        "less": b'{"format": 1}',
    }
    for name, data in manifests.items():
        with zipfile.ZipFile(tmp_path / f"{name}.zip", "w") as new:
            new.writestr("manifest.json", data)
    for name, told in (
        ("text.zip", "not a whole backup"),
        ("nojson.zip", "not a whole backup"),
        ("bytes.zip", "not a whole backup"),
        ("list.zip", "another format"),
        ("foreign.zip", "another format"),
        ("less.zip", "missing .* required"),
        ("nowhere.zip", "No such file"),
    ):
        with pytest.raises(BadRequest, match=told):
            backup.restore(target, tmp_path / name, 2.0)
    with pytest.raises(BadRequest, match="No such file"):
        backup.save(source, tmp_path / "no-folder" / "b.zip", 1.0)
    with reading(target) as conn:
        assert conn.execute(select(func.count()).select_from(delivery)).scalar_one() == 0


def test_the_commands_say_what_they_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configs = []
    for name in ("a", "b"):
        config = tmp_path / f"{name}.toml"
        config.write_text(f'data_dir = "{tmp_path / name}"\n')
        configs.append(str(config))
    engine = open_engine(f"sqlite:///{tmp_path / 'a' / 'relay.sqlite3'}")
    migrate(engine)
    make_run(engine)
    engine.dispose()
    assert command.save(configs[0], tmp_path / "b.zip") == 0
    assert command.restore(configs[1], tmp_path / "b.zip") == 0
    said = capsys.readouterr().out
    assert f"{tmp_path / 'b.zip'}: 2 rows of {len(metadata.sorted_tables)} tables" in said
    assert "1  dispatch" in said
    assert command.show(configs[1], 10, None, None, None, False) == 0
