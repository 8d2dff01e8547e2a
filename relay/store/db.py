"""The engine: SQLite (WAL, one writer, short transactions) or PostgreSQL, behind one URL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from relay.errors import SettingsError

MIGRATIONS = Path(__file__).with_name("migrations")


def open_engine(url: str) -> Engine:
    """An engine for ``url``. On SQLite every transaction of ``begin`` takes the write lock at once (BEGIN IMMEDIATE):
    upgrading a read lock in the middle would fail at once instead of waiting for its turn."""
    try:
        parsed = make_url(url)
    except ArgumentError as exc:
        raise SettingsError(f"database_url: {exc}", "for example sqlite:////var/lib/relay/relay.sqlite3") from exc
    if parsed.get_backend_name() != "sqlite":
        try:
            return create_engine(url, pool_pre_ping=True, pool_size=10)
        except (ArgumentError, ImportError) as exc:
            shown = parsed.render_as_string(hide_password=True)
            raise SettingsError(f"database_url: {shown}: {exc}", "install the database's driver") from exc
    if parsed.database:
        folder = Path(parsed.database).parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            raise SettingsError(f"database_url: {folder}: {exc.strerror}", "give a folder that can be written") from exc
    engine = create_engine(url, connect_args={"timeout": 30})

    @event.listens_for(engine, "connect")
    def _pragmas(dbapi: Any, _record: Any) -> None:
        dbapi.isolation_level = None  # we say BEGIN ourselves
        cursor = dbapi.cursor()
        # FULL: what was acknowledged survives a power cut, not only a kill
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "busy_timeout=30000"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(conn: Connection) -> None:
        read_only = conn.get_execution_options().get("read_only", False)
        conn.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")

    return engine


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """A connection for reading: a consistent snapshot that never waits for the writer."""
    with engine.connect().execution_options(read_only=True) as conn, conn.begin():
        yield conn


def migrate(engine: Engine) -> None:
    """Brings the database to the newest schema. Safe to call from several processes: Alembic's version row decides.
    SettingsError when there is no database to be had there, or that of a newer release."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    shown = engine.url.render_as_string(hide_password=True)
    try:
        with engine.begin() as conn:
            config.attributes["connection"] = conn
            command.upgrade(config, "head")
    except DBAPIError as exc:
        problem = str(exc.orig).strip().splitlines()[0]
        raise SettingsError(f"database_url: {shown}: {problem}", "give a database that can be written") from exc
    except CommandError as exc:
        raise SettingsError(f"database_url: {shown}: {exc}", "a newer release made it: start that one") from exc
