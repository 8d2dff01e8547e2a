"""Claims: an insert that loses quietly when the row is already there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.dml import ReturningInsert


def insert_once(conn: Connection, table: Table, values: Mapping[str, Any]) -> bool:
    """Inserts one row unless one of the table's unique constraints already holds such a row. True: inserted."""
    # the row itself tells: drivers do not count the rows of an insert that returns its key (psycopg says -1)
    return conn.execute(_insert(conn, table).values(**values)).first() is not None


def insert_new(conn: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> set[Any]:
    """Inserts those of the rows (all with the same columns) that none of the unique constraints already holds, in few
    statements. Returns the inserted ones' keys (the first primary key column)."""
    if not rows:
        return set()
    return {row[0] for row in conn.execute(_insert(conn, table), [dict(row) for row in rows])}


def _insert(conn: Connection, table: Table) -> ReturningInsert[Any]:
    dialect = postgresql if conn.dialect.name == "postgresql" else sqlite
    statement: ReturningInsert[Any] = (
        dialect.insert(table).on_conflict_do_nothing().returning(*table.primary_key.columns)
    )
    return statement


def upsert(conn: Connection, table: Table, key: Mapping[str, Any], values: Mapping[str, Any], *, newer: str) -> bool:
    """Inserts the row ``key``, or gives it ``values`` unless its column ``newer`` is already past them. True: the row
    is now as given."""
    dialect = postgresql if conn.dialect.name == "postgresql" else sqlite
    statement = dialect.insert(table).values(**key, **values)
    fresh = {name: statement.excluded[name] for name in values}
    changed = statement.on_conflict_do_update(
        index_elements=list(key), set_=fresh, where=table.c[newer] <= statement.excluded[newer]
    )
    return conn.execute(changed.returning(*table.primary_key.columns)).first() is not None
