"""The engine: SQLite (WAL, one writer, short transactions) or PostgreSQL, behind one URL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from relay.errors import SettingsError
from relay.store.migrating import MIGRATIONS, look, mend_of, migrate
from relay.store.turn import Turn

__all__ = ["MIGRATIONS", "migrate", "open_engine", "open_migrated", "reading"]
TURN = "turn"


def open_engine(url: str, *, answering: bool = False) -> Engine:
    """An engine for ``url``; ``answering``: for the process that acknowledges things to the outside.

    On SQLite every transaction of ``begin`` takes the write lock at once (BEGIN IMMEDIATE): upgrading a read lock in
    the middle would fail at once instead of waiting for its turn. Turns are given in order, those who answer first.
    What is acknowledged is on the disk before the answer (synchronous=FULL). Everybody else leaves that to the next
    checkpoint: a power cut may take back their last steps, never some of them, and they are done again.
    """
    parsed = parsed_url(url)
    kind, shown = parsed.get_backend_name(), parsed.render_as_string(hide_password=True)
    if kind not in ("sqlite", "postgresql"):
        hint = "write postgresql://" if kind == "postgres" else "give sqlite:////a/file, or postgresql://user@host/name"
        raise SettingsError(f"database_url: {shown}: {kind} is neither sqlite nor postgresql", hint)
    if kind == "postgresql":
        try:
            return create_engine(url, pool_pre_ping=True, pool_size=10)
        except (ArgumentError, ImportError) as exc:
            hint = "install PostgreSQL's driver: pip install 'psycopg[binary]', or this package's extra postgres"
            raise SettingsError(f"database_url: {shown}: {exc}", hint) from exc
    if parsed.database:
        folder = Path(parsed.database).parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            raise SettingsError(f"database_url: {folder}: {exc.strerror}", "give a folder that can be written") from exc
    try:
        engine = create_engine(url, connect_args={"timeout": 30})
    except (ArgumentError, ImportError) as exc:
        hint = "sqlite:////an/absolute/file, with four slashes, or sqlite:///a/relative/one"
        raise SettingsError(f"database_url: {shown} is no address of an SQLite file", hint) from exc

    @event.listens_for(engine, "connect")
    def _pragmas(dbapi: Any, _record: Any) -> None:
        dbapi.isolation_level = None  # we say BEGIN ourselves
        cursor = dbapi.cursor()
        level = "FULL" if answering else "NORMAL"
        for pragma in ("journal_mode=WAL", f"synchronous={level}", "foreign_keys=ON", "busy_timeout=30000"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    if parsed.database and parsed.database != ":memory:":
        _take_turns(engine, Path(parsed.database), answering)

    @event.listens_for(engine, "begin")
    def _begin(conn: Connection) -> None:
        read_only = conn.get_execution_options().get("read_only", False)
        if read_only:
            conn.exec_driver_sql("BEGIN")
            return
        turn: Turn | None = conn.info.get(TURN)
        if turn is not None:
            turn.take()
        try:
            conn.exec_driver_sql("BEGIN IMMEDIATE")
        except BaseException:
            if turn is not None:
                turn.give()
            raise

    return engine


def _take_turns(engine: Engine, database: Path, first: bool) -> None:
    @event.listens_for(engine, "connect")
    def _queue(_dbapi: Any, record: Any) -> None:
        record.info[TURN] = Turn(database, first)

    # comes after COMMIT and ROLLBACK were sent, and also when a connection was lost
    @event.listens_for(engine, "checkin")
    def _give(_dbapi: Any, record: Any) -> None:
        if TURN in record.info:
            record.info[TURN].give()

    @event.listens_for(engine, "close")
    def _leave(_dbapi: Any, record: Any) -> None:
        turn = record.info.pop(TURN, None)
        if turn is not None:
            turn.close()


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """A connection for reading: a consistent snapshot that never waits for the writer."""
    with engine.connect().execution_options(read_only=True) as conn, conn.begin():
        yield conn


def open_migrated(url: str) -> Engine:
    """An engine for a database that a relay has made, brought to this schema: for a command that looks into it.

    SettingsError where there is none: a command that was given the wrong settings, or none, must not make an empty
    database and say of it that nothing is stuck, or save it as a backup.
    """
    parsed = parsed_url(url)
    shown = parsed.render_as_string(hide_password=True)
    hint = "name the relay's settings with --config or RELAY_CONFIG; relay up makes a new database, or relay migrate"
    file = parsed.database if parsed.get_backend_name() == "sqlite" else None
    if file and file != ":memory:" and not Path(file).is_file():
        raise SettingsError(f"there is no database at {Path(file).absolute()}", hint)
    engine = open_engine(url)
    try:
        with reading(engine) as conn:
            empty = look(conn).found is None and not inspect(conn).get_table_names()
    except DBAPIError as exc:
        problem = str(exc.orig).strip().splitlines()[0]
        raise SettingsError(f"database_url: {shown}: {problem}", mend_of(engine, problem)) from exc
    if empty and file != ":memory:":
        raise SettingsError(f"database_url: {shown}: no relay has been here: it is empty", hint)
    migrate(engine)
    return engine


def parsed_url(url: str) -> URL:
    """``url`` taken apart. SettingsError."""
    try:
        return make_url(url)
    except ArgumentError as exc:
        raise SettingsError(f"database_url: {exc}", "for example sqlite:////var/lib/relay/relay.sqlite3") from exc
