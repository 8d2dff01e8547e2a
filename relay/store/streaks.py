"""Failure streaks: a pull request's commits in a row that fail at one downstream, and the comment about them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from relay.store.ids import new_id
from relay.store.schema import streak


def open_of(conn: Connection, upstream: str, number: int, downstream_key: str) -> Row[Any] | None:
    """The streak that is not over, locked; None: there is none."""
    query = select(streak).where(
        streak.c.upstream == upstream,
        streak.c.pr_number == number,
        streak.c.downstream_key == downstream_key,
        streak.c.ended_at.is_(None),
    )
    return conn.execute(query.order_by(streak.c.id.desc()).limit(1).with_for_update()).one_or_none()


def begin(
    conn: Connection, *, upstream: str, number: int, downstream_key: str, dispatch_id: str, now: float
) -> Row[Any]:
    values = {
        "id": new_id(now),
        "upstream": upstream,
        "pr_number": number,
        "downstream_key": downstream_key,
        "failures": 1,
        "version": 1,
        "dispatch_id": dispatch_id,
        "began_at": now,
    }
    conn.execute(insert(streak).values(**values))
    return conn.execute(select(streak).where(streak.c.id == values["id"])).one()


def move(conn: Connection, streak_id: str, *, failures: int, dispatch_id: str, now: float, over: bool) -> Row[Any]:
    """One more commit, or the end."""
    values = {"failures": failures, "dispatch_id": dispatch_id, "version": streak.c.version + 1}
    if over:
        values["ended_at"] = now
    conn.execute(update(streak).where(streak.c.id == streak_id).values(**values))
    return conn.execute(select(streak).where(streak.c.id == streak_id)).one()


def get(conn: Connection, streak_id: str) -> Row[Any] | None:
    return conn.execute(select(streak).where(streak.c.id == streak_id)).one_or_none()


def set_comment(conn: Connection, streak_id: str, comment_id: str) -> None:
    """Remembers the streak's comment, once."""
    mine = update(streak).where(streak.c.id == streak_id, streak.c.comment_id.is_(None))
    conn.execute(mine.values(comment_id=comment_id))
