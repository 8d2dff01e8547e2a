"""Work that is done every so often by whoever is there first: one row a chore, claimed by moving its time on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Row, select, update

from relay.store.schema import chore
from relay.store.upsert import insert_once


def claim(conn: Connection, name: str, now: float, every_s: float) -> dict[str, Any] | None:
    """What the last time left for this one, and the next time is ``every_s`` seconds on. None: it is not due, or
    another process was faster."""
    insert_once(conn, chore, {"name": name, "due_at": now, "memory": {}})
    taken = (update(chore).where(chore.c.name == name, chore.c.due_at <= now).values(due_at=now + every_s)).returning(
        chore.c.memory
    )
    row = conn.execute(taken).one_or_none()
    return dict(row.memory) if row is not None else None


def past(memory: Mapping[str, Any], key: str, now: float) -> float | None:
    """A time that a chore remembers. None where there is none, or it is later than ``now``: a clock that was ahead
    wrote it, and whoever went by it would pass over all that comes until then."""
    found = memory.get(key)
    return float(found) if found is not None and float(found) <= now else None


def finish(conn: Connection, name: str, now: float, *, memory: dict[str, Any] | None, error: str | None) -> None:
    """How it went; ``memory`` None: what was known stays."""
    values: dict[str, Any] = {"ran_at": now, "error": error}
    if memory is not None:
        values["memory"] = memory
    conn.execute(update(chore).where(chore.c.name == name).values(**values))


def make_due(conn: Connection, name: str, now: float) -> None:
    """Something happened that a chore should look at now."""
    insert_once(conn, chore, {"name": name, "due_at": now, "memory": {}})
    conn.execute(update(chore).where(chore.c.name == name, chore.c.due_at > now).values(due_at=now))


def note(conn: Connection, name: str, now: float, *, error: str | None, again_s: float) -> None:
    """What somebody saw who looks all the time: it shows beside the chores, and as late when nobody has looked for
    ``again_s`` seconds."""
    insert_once(conn, chore, {"name": name, "due_at": now, "memory": {}})
    conn.execute(update(chore).where(chore.c.name == name).values(ran_at=now, due_at=now + again_s, error=error))


def get(conn: Connection, name: str) -> Row[Any] | None:
    return conn.execute(select(chore).where(chore.c.name == name)).one_or_none()
