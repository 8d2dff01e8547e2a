"""A whole database as one file, and back: the same for SQLite and PostgreSQL, so also the way from one to the other.

A zip with ``manifest.json`` and a file of JSON lines a table. It is one snapshot: what was committed before it began,
and nothing of what came later. Columns are named in each row, so a backup of an older release fits a newer one.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import (
    JSON,
    Column,
    Connection,
    Engine,
    LargeBinary,
    Table,
    Text,
    bindparam,
    cast,
    func,
    insert,
    select,
    text,
    update,
)

from relay import __version__
from relay.errors import BadRequest, Conflict
from relay.store import due
from relay.store.migrating import look, migrate
from relay.store.schema import metadata, outbox

FORMAT = 1
BATCH = 500
MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a backup says about itself. ``made_at``: seconds since the epoch; ``rows`` and ``digests`` (sha256 of the
    lines) by table."""

    release: str
    schema: str
    made_at: float
    rows: dict[str, int]
    digests: dict[str, str]


def save(engine: Engine, to: Path, now: float) -> Manifest:
    """Writes a backup; the file is there when it is whole, and not before. BadRequest when it cannot be written."""
    fresh = to.with_name(f"{to.name}.{os.getpid()}.part")
    try:
        with zipfile.ZipFile(fresh, "x", zipfile.ZIP_DEFLATED, compresslevel=6) as file, _snapshot(engine) as conn:
            schema = look(conn)
            rows, digests = {}, {}
            for table in metadata.sorted_tables:
                with file.open(f"tables/{table.name}.ndjson", "w", force_zip64=True) as out:
                    rows[table.name], digests[table.name] = _write(_lines(conn, table), out.write)
            found = Manifest(__version__, str(schema.found), now, rows, digests)
            told = {"format": FORMAT, **{name: getattr(found, name) for name in Manifest.__slots__}}
            file.writestr(MANIFEST, json.dumps(told, indent=1))
        with fresh.open("rb") as written:
            os.fsync(written.fileno())
        fresh.replace(to)
        return found
    except OSError as exc:
        raise BadRequest(f"{to}: {exc.strerror or exc}", "give the path of a file in a folder with room") from exc
    finally:
        fresh.unlink(missing_ok=True)


def restore(engine: Engine, source: Path, now: float) -> Manifest:
    """Fills an empty database from a backup, wholly or not at all. Effects that were due may have left since the backup
    was made, so they come back in doubt: each is looked for before it is sent again. BadRequest for a file that is no
    whole backup, Conflict for a database that has rows."""
    migrate(engine)
    try:
        with zipfile.ZipFile(source) as file:
            found = _manifest(file, source)
            with engine.begin() as conn:
                ours = look(conn).wanted
                if found.schema.isdecimal() and int(found.schema) > int(ours):
                    raise BadRequest(
                        f"{source}: made by {found.release}, schema {found.schema}", "restore with that one"
                    )
                _must_be_empty(conn)
                for table in metadata.sorted_tables:
                    if table.name in found.rows:
                        _fill(conn, table, file, found)
                conn.execute(update(outbox).where(outbox.c.state == "due").values(ambiguous=True))
                due.make_all_due(conn, now)
                _move_sequences(conn)
            return found
    except (zipfile.BadZipFile, KeyError, EOFError, json.JSONDecodeError, UnicodeDecodeError) as exc:
        raise BadRequest(f"{source}: not a whole backup: {exc}", "give a file that `relay backup` made") from exc
    except OSError as exc:
        raise BadRequest(f"{source}: {exc.strerror or exc}", "give the path of a backup") from exc


def _snapshot(engine: Engine) -> Any:
    """A connection that sees one state of everything."""
    if engine.dialect.name == "postgresql":
        return engine.connect().execution_options(isolation_level="REPEATABLE READ", stream_results=True)
    return engine.connect().execution_options(read_only=True)


def _lines(conn: Connection, table: Table) -> Iterator[bytes]:
    # JSON as its text: a JSON null is not the same as no value
    columns = [cast(c, Text).label(c.name) if isinstance(c.type, JSON) else c for c in table.columns]
    order = list(table.primary_key.columns)
    for row in conn.execute(select(*columns).order_by(*order)).yield_per(BATCH).mappings():
        values = {name: _plain(value) for name, value in row.items()}
        yield json.dumps(values, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def _plain(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes | memoryview) else value


def _write(lines: Iterator[bytes], write: Callable[[bytes], Any]) -> tuple[int, str]:
    number, digest = 0, hashlib.sha256()
    for line in lines:
        write(line)
        digest.update(line)
        number += 1
    return number, digest.hexdigest()


def _manifest(file: zipfile.ZipFile, source: Path) -> Manifest:
    told = json.loads(file.read(MANIFEST))
    if not isinstance(told, dict) or told.pop("format", None) != FORMAT:
        raise BadRequest(f"{source}: a backup of another format", "restore with the release that made it")
    try:
        return Manifest(**told)
    except TypeError as exc:
        raise BadRequest(f"{source}: {MANIFEST}: {exc}", "give a file that `relay backup` made") from exc


def _must_be_empty(conn: Connection) -> None:
    for table in metadata.sorted_tables:
        if conn.execute(select(func.count()).select_from(table)).scalar_one():
            raise Conflict(f"the database is not empty: {table.name} has rows", "restore into an empty one")


def _fill(conn: Connection, table: Table, file: zipfile.ZipFile, found: Manifest) -> None:
    number, digest = 0, hashlib.sha256()
    with file.open(f"tables/{table.name}.ndjson") as lines:
        batch: list[dict[str, Any]] = []
        for line in io.BufferedReader(lines):  # type: ignore[type-var]
            digest.update(line)
            number += 1
            batch.append(json.loads(line))
            if len(batch) == BATCH:
                _insert(conn, table, batch)
                batch = []
        _insert(conn, table, batch)
    if (number, digest.hexdigest()) != (found.rows[table.name], found.digests[table.name]):
        raise BadRequest(f"the backup's table {table.name} is damaged", "take another backup")


def _insert(conn: Connection, table: Table, rows: Sequence[dict[str, Any]]) -> None:
    if not rows:
        return
    known = [column for column in table.columns if column.name in rows[0]]
    binary = {column.name for column in known if isinstance(column.type, LargeBinary)}
    values = {column.name: _bound(conn, column) for column in known}
    given = [{f"b_{c.name}": _binary(row[c.name]) if c.name in binary else row[c.name] for c in known} for row in rows]
    conn.execute(insert(table).values(values), given)


def _binary(told: str | None) -> bytes | None:
    return base64.b64decode(told) if told is not None else None


def _bound(conn: Connection, column: Column[Any]) -> Any:
    """The parameter of a column; JSON goes in as the text that it came out as."""
    if not isinstance(column.type, JSON):
        return bindparam(f"b_{column.name}", type_=column.type)
    told = bindparam(f"b_{column.name}", type_=Text())
    return cast(told, JSON) if conn.dialect.name == "postgresql" else told


def _move_sequences(conn: Connection) -> None:
    """PostgreSQL counts on from the highest number."""
    if conn.dialect.name != "postgresql":
        return
    for table in metadata.sorted_tables:
        column = table.autoincrement_column
        if column is None:
            continue
        sequence = conn.execute(
            text("SELECT pg_get_serial_sequence(:t, :c)"), {"t": table.name, "c": column.name}
        ).scalar()
        highest = conn.execute(select(func.max(column))).scalar()
        if sequence is not None and highest is not None:
            conn.execute(select(func.setval(sequence, highest)))
