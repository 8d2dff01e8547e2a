"""Names of tests that have results, for the search box: the whole name, or how its file, class or method begins."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, select, union
from sqlalchemy.dialects import postgresql, sqlite

from relay.store.schema import test_name

LAST = "\U0010ffff"
"""Sorts after everything that may follow a prefix."""


def note(conn: Connection, tests: Iterable[str]) -> None:
    """Remembers ``file::Class::method`` names; known ones change nothing. In order, so that two writers never wait for
    each other in a circle."""
    rows = [_row(test) for test in sorted(set(tests))]
    if rows:
        dialect = sqlite if conn.dialect.name == "sqlite" else postgresql
        conn.execute(dialect.insert(test_name).on_conflict_do_nothing(index_elements=["test"]), rows)


def beginning(conn: Connection, text: str, limit: int) -> list[str]:
    """Names whose path, file, class or method begins with ``text`` (all but the path in any case), in order.
    ``Class.method`` and ``Class::method`` mean a method of that class."""
    key = text.casefold()
    owner, _, method = key.replace("::", ".").rpartition(".")
    ranges = [(test_name.c.test, text)]
    ranges += [(column, key) for column in (test_name.c.file_key, test_name.c.class_key, test_name.c.method_key)]
    parts = [
        select(test_name.c.test).where(column >= low, column < low + LAST).order_by(column).limit(limit).subquery()
        for column, low in ranges
    ]
    found = conn.execute(union(*(select(part.c.test) for part in parts))).scalars().all()
    if owner and not owner.endswith(".py"):
        wanted = test_name.c.class_key == owner.rpartition(".")[2]
        within = (test_name.c.method_key >= method) & (test_name.c.method_key < method + LAST)
        of_class = select(test_name.c.test).where(wanted, within).order_by(test_name.c.method_key).limit(limit)
        found = [*found, *conn.execute(of_class).scalars()]
    return sorted(set(found))[:limit]


def _row(test: str) -> dict[str, str]:
    path, _, rest = test.partition("::")
    owner, _, method = rest.rpartition("::")
    name = path.rpartition("/")[2]
    return {
        "test": test,
        "file_key": name.casefold(),
        "class_key": owner.casefold(),
        "method_key": method.casefold(),
    }
