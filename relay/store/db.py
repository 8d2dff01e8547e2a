"""The engine: SQLite (WAL, one writer, short transactions) or PostgreSQL, behind one URL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError

from relay.errors import SettingsError
from relay.store.migrating import MIGRATIONS, migrate
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
    """An engine for ``url`` whose tables are there, for a command that may be the first to look. SettingsError."""
    engine = open_engine(url)
    migrate(engine)
    return engine
