"""Migrations beside the traffic: several processes at once, a table that is in use, a database of a newer release."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from factories import make_delivery
from private_postgres import Cluster
from sqlalchemy import create_engine, inspect, select, text
from sqlalchemy.pool import NullPool

from relay.errors import SettingsError
from relay.store import migrating
from relay.store.db import MIGRATIONS, migrate, open_engine, reading
from relay.store.migrating import look
from relay.store.schema import delivery, metadata

NEXT = """
import sqlalchemy as sa
from alembic import op

from relay.store.migrating import beside_traffic

revision = "0002"
down_revision = "0001"


def upgrade():
    op.add_column("delivery", sa.Column("note", sa.Text()))
    with beside_traffic(op):
        op.create_index("ix_delivery_note", "delivery", ["note"], postgresql_concurrently=True)
"""


@pytest.fixture
def next_release(tmp_path: Path) -> Path:
    """The migrations of a release after this one."""
    scripts = tmp_path / "migrations"
    shutil.copytree(MIGRATIONS, scripts, ignore=shutil.ignore_patterns("__pycache__"))
    (scripts / "versions" / "0002_note.py").write_text(NEXT)
    return scripts


def empty(postgres: Cluster) -> str:
    name = f"empty{time.monotonic_ns()}"
    admin = create_engine(postgres.url(), isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with admin.connect() as conn:
        conn.execute(text(f"CREATE DATABASE {name} TEMPLATE template0"))
    admin.dispose()
    return postgres.url(name)


def test_processes_that_start_together_make_the_tables_once(postgres: Cluster) -> None:
    url = empty(postgres)
    problems: list[Exception] = []

    def start() -> None:
        engine = open_engine(url)
        try:
            migrate(engine)
        except Exception as exc:  # noqa: BLE001 - whatever it is, the test tells it
            problems.append(exc)
        finally:
            engine.dispose()

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert problems == []
    engine = open_engine(url)
    with engine.connect() as conn:
        assert compare_metadata(MigrationContext.configure(conn), metadata) == []
    engine.dispose()
    postgres.drop_database(url)


def test_a_migration_of_a_table_in_use_lets_others_pass(
    postgres: Cluster, next_release: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction that has read the table is open: the change waits for it, and nobody waits for the change longer
    than for its one try."""
    monkeypatch.setattr(migrating, "LOCK_S", 0.2)
    monkeypatch.setattr(migrating, "PAUSE_S", 0.3)
    url = postgres.new_database()
    engine, other = open_engine(url), open_engine(url)
    held = engine.connect()
    held.execute(select(delivery.c.id)).all()  # and its transaction stays open
    done = threading.Event()
    worker = threading.Thread(target=lambda: (migrate(other, next_release), done.set()))
    worker.start()
    written = 0
    began = time.monotonic()
    while time.monotonic() - began < 3:  # others read and write all the time
        make_delivery(engine)
        written += 1
    assert not done.is_set(), "it cannot have had its lock"
    assert written >= 4, "those who came later waited for the migration"
    held.close()
    worker.join(60)
    assert done.is_set()
    found = inspect(engine)
    assert "note" in {column["name"] for column in found.get_columns("delivery")}
    assert "ix_delivery_note" in {index["name"] for index in found.get_indexes("delivery")}
    with reading(engine) as conn:
        assert look(conn, next_release).found == "0002"
        assert conn.execute(text("SHOW lock_timeout")).scalar_one() == "0", "the pool has no connection of it"
    engine.dispose()
    other.dispose()
    postgres.drop_database(url)


@pytest.mark.both_databases
def test_a_release_works_on_the_database_of_the_next(engine: object, next_release: Path) -> None:
    migrate(engine, next_release)  # type: ignore[arg-type]
    migrate(engine)  # type: ignore[arg-type]
    with reading(engine) as conn:  # type: ignore[arg-type]
        schema = look(conn)
    assert (schema.found, schema.newer, schema.fits) == ("0002", True, True)


def test_a_database_of_somebody_else_is_refused(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{tmp_path / 'x.sqlite3'}")
    migrate(engine)
    with engine.begin() as conn:
        conn.execute(text("UPDATE alembic_version SET version_num = 'f00dfeed'"))
    with pytest.raises(SettingsError, match="f00dfeed"):
        migrate(engine)
    engine.dispose()
