"""Bringing a database to this release's schema, without stopping those who work on it.

On PostgreSQL a change of a table waits for everybody who uses it, and whoever comes later waits behind the change. So
it asks for its lock for LOCK_S at a time, lets the others pass, and asks again; each migration is a transaction of its
own. On SQLite the writers' turn is the lock.

The releases before and after stand on the same database while they are exchanged: a migration leaves the release before
it working (tests/migration_rules.py), so a database that is newer than this release is one it can use.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

from relay.errors import SettingsError

log = structlog.get_logger(__name__)
MIGRATIONS = Path(__file__).with_name("migrations")
LOCK_S = 2.0
"""The longest that others wait behind a migration that waits itself."""
PAUSE_S = 1.0
PATIENCE_S = 600.0
"""A migration that found no moment in so long gives up."""
GUARD = 0x72656C6179
"""PostgreSQL's advisory lock of whoever migrates."""
NO_LOCK = "55P03"


@dataclass(frozen=True, slots=True)
class Schema:
    """The database's revision and this release's. Revisions are numbers that grow."""

    found: str | None
    wanted: str

    @property
    def fits(self) -> bool:
        """Whether this release can work on the database: it has its schema, or that of a newer release."""
        return self.found is not None and (self.found == self.wanted or self.newer)

    @property
    def newer(self) -> bool:
        there = self.found or ""
        return there.isdecimal() and self.wanted.isdecimal() and int(there) > int(self.wanted)


def look(conn: Connection, scripts: Path = MIGRATIONS) -> Schema:
    """The schema as it is and as it should be. DBAPIError when the database does not answer."""
    wanted = ScriptDirectory(str(scripts)).get_current_head()
    return Schema(MigrationContext.configure(conn).get_current_revision(), str(wanted))


def migrate(engine: Engine, scripts: Path = MIGRATIONS) -> None:
    """Brings the database to the newest schema. Safe to call from several processes at once; a database that fits is
    left alone. SettingsError when there is no database to be had there, or nobody knows what is in it."""
    shown = engine.url.render_as_string(hide_password=True)
    config = Config()
    config.set_main_option("script_location", str(scripts).replace("%", "%%"))
    try:
        with engine.connect().execution_options(read_only=True) as conn, conn.begin():
            schema = look(conn, scripts)
        if schema.newer:
            log.info("the database is a newer release's", found=schema.found, ours=schema.wanted)
        if schema.fits:
            return
        if engine.dialect.name == "postgresql":
            with _alone(engine):
                _patiently(engine, config)
            return
        with engine.begin() as conn:
            config.attributes["connection"] = conn
            command.upgrade(config, "head")
    except DBAPIError as exc:
        problem = str(exc.orig).strip().splitlines()[0]
        raise SettingsError(f"database_url: {shown}: {problem}", mend_of(engine, problem)) from exc
    except CommandError as exc:
        raise SettingsError(f"database_url: {shown}: {exc}", "give an empty database, or one of this relay's") from exc


def mend_of(engine: Engine, problem: str) -> str:
    """What to do about a database that does not answer, or not as it should, by what it said."""
    if "disk is full" in problem or "No space left" in problem:
        return "make room on its disk"
    if engine.dialect.name == "postgresql":
        return "is it running there, and are host, port, user, password and name right?"
    return "give a database that can be written"


@contextmanager
def beside_traffic(operations: Any) -> Iterator[None]:
    """For a migration (its ``op``): what is done within is in no transaction on PostgreSQL, as an index that is built
    beside the traffic must be (``postgresql_concurrently=True``)."""
    context = operations.get_context()
    if context.dialect.name != "postgresql":
        yield
        return
    with context.autocommit_block():
        yield


@contextmanager
def contract(last_used: str) -> Iterator[None]:
    """For a migration: what is dropped within was used last by the release ``last_used`` (``v1.2.0``), which is two
    releases ago, so no process that may still run knows it (docs/deploy.md#how-a-release-changes-a-table)."""
    log.info("dropping what is not used any more", last_used=last_used)
    yield


@contextmanager
def _alone(engine: Engine) -> Iterator[None]:
    """One process migrates, the others wait. They ask again and again: somebody who waits within a statement would keep
    an index from being built beside the traffic."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as guard:
        until = time.monotonic() + PATIENCE_S
        while not guard.execute(text("SELECT pg_try_advisory_lock(:key)"), {"key": GUARD}).scalar_one():
            if time.monotonic() > until:
                raise SettingsError("another process has been migrating the database for too long", "look at its log")
            time.sleep(0.2)
        try:
            yield
        finally:
            guard.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": GUARD})


def _patiently(engine: Engine, config: Config) -> None:
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            with engine.connect() as conn:
                conn.execute(text(f"SET lock_timeout = {int(LOCK_S * 1000)}"))
                conn.commit()
                config.attributes["connection"] = conn
                try:
                    command.upgrade(config, "head")
                finally:  # others get this connection by the pool
                    conn.rollback()
                    conn.execute(text("RESET lock_timeout"))
                    conn.commit()
            return
        except DBAPIError as exc:
            if getattr(exc.orig, "sqlstate", None) != NO_LOCK or time.monotonic() > until:
                raise
            log.warning("a table is in use: the migration lets others pass and tries again", pause_s=PAUSE_S)
            time.sleep(PAUSE_S)
