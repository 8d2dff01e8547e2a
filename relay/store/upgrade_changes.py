"""The changes of an upgrade, a row each: filtered, counted and paged by the database, so that forty thousand of them
cost a page no more than forty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, bindparam, func, insert, or_, select, update

from relay.store.schema import result, upgrade, upgrade_change

Map = dict[str, Any]
POINTS = 60
_OWN = ("test", "kind", "content", "evaluate", "relevant")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which changes. ``kind``: of it, by kind or content; ``find``: a part of a test's id, in either case; ``only``:
    ``evaluate``, ``relevant``, ``left`` (not run yet), or a standing."""

    kind: str | None = None
    find: str = ""
    only: str | None = None


def add(conn: Connection, id: str, changes: Sequence[Map]) -> None:
    """Stores the changes of a report (``relay.upgrade_report.to_value``), in their order."""
    rows = [
        {
            "upgrade_id": id,
            "place": place,
            **{name: change[name] for name in _OWN},
            "more": {name: value for name, value in change.items() if name not in _OWN},
        }
        for place, change in enumerate(changes)
    ]
    if rows:
        conn.execute(insert(upgrade_change), rows)


def note_results(conn: Connection, id: str, run: str | None) -> None:
    """Notes since when a run of the new side has a result of a test, for those that have one, and the progress."""
    if run is None:
        return
    first = func.min(result.c.recorded_at)
    query = select(result.c.test, first).where(result.c.dispatch_id == run).group_by(result.c.test)
    found = {row[0]: row[1] for row in conn.execute(query)}
    c = upgrade_change.c
    changes = conn.execute(select(c.test, c.relevant, c.done_at).where(c.upgrade_id == id)).all()
    new = [{"of": row.test, "done_at": found[row.test]} for row in changes if row.test in found and row.done_at is None]
    _note(conn, id, new, "done_at")
    times = sorted(found[row.test] for row in changes if row.relevant and row.test in found)
    progress = {"evaluated": len(times), "burn_down": burn_down(times, sum(row.relevant for row in changes))}
    conn.execute(update(upgrade).where(upgrade.c.id == id).values(progress=progress))


def note_standings(conn: Connection, id: str, stood: Mapping[str, tuple[str, str]]) -> None:
    """Notes where tests stand on both sides: test -> (standing, message of its first failure)."""
    rows = [{"of": test, "standing": standing, "message": said} for test, (standing, said) in stood.items()]
    _note(conn, id, rows, "standing", "message")


def _note(conn: Connection, id: str, rows: list[Map], *columns: str) -> None:
    if rows:
        mine = (upgrade_change.c.upgrade_id == id, upgrade_change.c.test == bindparam("of"))
        conn.execute(update(upgrade_change).where(*mine).values({name: bindparam(name) for name in columns}), rows)


def burn_down(times: Sequence[float], relevant: int) -> list[Map]:
    """Of when (epoch, rising) each test had its first result: about ``POINTS`` of them, and how many were left then."""
    step = max(1, len(times) // POINTS)
    points = [{"at": at, "left": relevant - n} for n, at in enumerate(times, 1) if n % step == 0 or n == len(times)]
    return [{"at": times[0], "left": relevant}, *points] if times else []


def matching(conn: Connection, id: str, wanted: Wanted) -> int:
    return int(conn.execute(select(func.count()).where(*_where(id, wanted))).scalar_one())


def some(conn: Connection, id: str, wanted: Wanted, *, after: int, limit: int) -> list[Map]:
    """Changes in the report's order, without the first ``after``."""
    query = select(upgrade_change).where(*_where(id, wanted)).order_by(upgrade_change.c.place).limit(limit)
    if wanted == Wanted():
        query = query.where(upgrade_change.c.place >= after)  # places have no gaps: nothing is counted off
    else:
        query = query.offset(after)
    return [_plain(row) for row in conn.execute(query)]


def _where(id: str, wanted: Wanted) -> list[ColumnElement[bool]]:
    c = upgrade_change.c
    found: list[ColumnElement[bool]] = [c.upgrade_id == id]
    if wanted.kind is not None:
        found.append(or_(c.kind == wanted.kind, c.content == wanted.kind))
    if wanted.find:
        found.append(c.test.icontains(wanted.find, autoescape=True))
    if wanted.only in ("evaluate", "relevant"):
        found.append(c[wanted.only])
    elif wanted.only == "left":
        found += [c.relevant, c.done_at.is_(None)]
    elif wanted.only is not None:
        found.append(c.standing == wanted.only)
    return found


def _plain(row: Row[Any]) -> Map:
    own = {name: getattr(row, name) for name in _OWN}
    done = row.done_at is not None
    return {**own, **row.more, "done": done, "standing": row.standing, "message": row.message or ""}
