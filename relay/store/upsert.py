"""Claims: an insert that loses quietly when the row is already there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite


def insert_once(conn: Connection, table: Table, values: Mapping[str, Any]) -> bool:
    """Inserts one row unless one of the table's unique constraints already holds such a row. True: inserted."""
    dialect = postgresql if conn.dialect.name == "postgresql" else sqlite
    statement = dialect.insert(table).values(**values).on_conflict_do_nothing()
    # the row itself tells: drivers do not count the rows of an insert that returns its key (psycopg says -1)
    return conn.execute(statement.returning(*table.primary_key.columns)).first() is not None
