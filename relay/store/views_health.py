"""Whether what is done every so often is done: chores, deadlines, and places to which nothing is sent."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, func, select

from relay.domain.deadlines import words
from relay.store import circuits
from relay.store.schema import chore, circuit, outbox
from relay.store.views_parts import plain_all

LATE_S = 60.0
"""Somebody should have done a chore so long ago: then nobody does."""


def chores(conn: Connection, now: float) -> list[dict[str, Any]]:
    """Each chore: when it was done, how late the next time is (seconds, 0: not late), what was wrong the last time."""
    rows = conn.execute(select(chore.c.name, chore.c.due_at, chore.c.ran_at, chore.c.error).order_by(chore.c.name))
    found = []
    for row in plain_all(rows):
        late = now - row["due_at"]
        found.append({**row, "late_s": round(late, 1) if late > LATE_S else 0.0})
    return found


def places(conn: Connection, now: float) -> list[dict[str, Any]]:
    """Installations and repositories to which nothing is sent now."""
    keys = ("key", "code", "reason", "until", "failures", "changed_at")
    return [{key: getattr(row, key) for key in keys} for row in circuits.closed(conn, now)]


def budget(conn: Connection, now: float) -> list[dict[str, Any]]:
    """Effects that left in this minute, an owner of installations: what ``github_budget`` bounds."""
    rows = conn.execute(
        select(circuit.c.key, circuit.c.used, circuit.c.window_at)
        .where(circuit.c.window_at > now - 60.0, circuit.c.used > 0)
        .order_by(circuit.c.used.desc(), circuit.c.key)
        .limit(20)
    )
    return [{"owner": row.key, "used": row.used, "until": row.window_at + 60.0} for row in rows]


def deadlines(conn: Connection) -> dict[str, int]:
    """Waits that the sweeper has ended since ever, by reason code."""
    memory = conn.execute(select(chore.c.memory).where(chore.c.name == "deadlines")).scalar_one_or_none()
    total = (memory or {}).get("total", {})
    return {str(code): int(number) for code, number in total.items()}


def oldest_effect(conn: Connection, now: float) -> float:
    """Seconds that the oldest effect has waited to be sent; 0: none waits."""
    due = select(func.min(outbox.c.created_at)).where(outbox.c.state == "due", outbox.c.created_at <= now)
    asked = conn.execute(due).scalar_one()
    return max(0.0, now - asked) if asked is not None else 0.0


def notes(found: list[dict[str, Any]], closed: list[dict[str, Any]]) -> list[str]:
    """What an operator should look at."""
    late = [c for c in found if c["late_s"]]
    silent = _for(max((c["late_s"] for c in late), default=0.0))
    if len(late) == 1:
        said = [f"nobody has done the chore {late[0]['name']} for {silent}"]
    elif late:
        said = [f"nobody has done {len(late)} of {len(found)} chores for {silent}: see whether the pump runs"]
    else:
        said = []
    said += [f"the chore {c['name']} failed: {c['error']}" for c in found if c["error"]]
    limits = [place for place in closed if place["code"] != "rate-limited"]
    said += [f"nothing is sent to {place['key']} ({place['code']})" for place in limits[:5]]
    return said


def _for(seconds: float) -> str:
    """In minutes from two of them on: what is late by hours needs no seconds."""
    return words(round(seconds) if seconds < 120 else 60.0 * round(seconds / 60))
