"""Circuits: to which installations and repositories nothing is sent now, and how much left for each this minute."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, Row, func, or_, select, update

from relay.domain.circuit import PROBE_S, Circuit, Installed, grant
from relay.store.schema import circuit, installation
from relay.store.upsert import insert_once, upsert


def of_keys(conn: Connection, keys: Iterable[str]) -> dict[str, Circuit]:
    """Those of the places that are closed, by key."""
    rows = conn.execute(select(circuit).where(circuit.c.key.in_(sorted(set(keys))), circuit.c.code.is_not(None)))
    return {row.key: _circuit(row) for row in rows}


def installed(conn: Connection, owners: Iterable[str]) -> dict[str, Installed]:
    """What webhooks last said of the installations of these owners (case folded)."""
    owner = func.lower(installation.c.account)
    rows = conn.execute(
        select(owner.label("owner"), installation.c.state, installation.c.heard_at)
        .where(owner.in_(sorted(set(owners))))
        .order_by(installation.c.heard_at)
    )
    return {row.owner: Installed(row.state, row.heard_at) for row in rows}


def put(conn: Connection, value: Circuit) -> None:
    """Stores what is known of a place now."""
    told = {
        "code": value.code,
        "reason": value.reason,
        "until": value.until,
        "failures": value.failures,
        "changed_at": value.changed_at,
    }
    upsert(conn, circuit, {"key": value.key}, told, newer="changed_at")


def probe(conn: Connection, key: str, now: float) -> bool:
    """Whether the caller is the one that may try a closed place now; the others wait meanwhile."""
    mine = update(circuit).where(circuit.c.key == key, circuit.c.code.is_not(None), circuit.c.until <= now)
    return conn.execute(mine.values(until=now + PROBE_S)).rowcount == 1


def probe_early(conn: Connection, key: str, heard_at: float, now: float) -> bool:
    """The same for a place about which a webhook said something new at ``heard_at``: it is tried before its time."""
    mine = update(circuit).where(circuit.c.key == key, circuit.c.code.is_not(None), circuit.c.changed_at <= heard_at)
    return conn.execute(mine.values(until=now + PROBE_S, changed_at=now)).rowcount == 1


def reopen(conn: Connection, key: str, now: float) -> bool:
    """Something arrived there. False: it was open."""
    closed = update(circuit).where(circuit.c.key == key, circuit.c.code.is_not(None))
    opened = closed.values(code=None, reason=None, failures=0, until=0.0, changed_at=now)
    return conn.execute(opened).rowcount == 1


def take(conn: Connection, owner: str, asked: int, now: float, limit: int) -> tuple[int, float]:
    """Takes up to ``asked`` calls of an owner's budget; -> (granted, when the next minute begins)."""
    row = conn.execute(
        select(circuit.c.window_at, circuit.c.used).where(circuit.c.key == owner).with_for_update()
    ).one_or_none()
    if row is None:
        insert_once(conn, circuit, {"key": owner, "changed_at": now})
        locked = select(circuit.c.window_at, circuit.c.used).where(circuit.c.key == owner).with_for_update()
        row = conn.execute(locked).one()
    granted, window_at, used = grant(row.window_at, row.used, asked, now, limit)
    if granted:
        conn.execute(update(circuit).where(circuit.c.key == owner).values(window_at=window_at, used=used))
    return granted, window_at + 60.0


def closed(conn: Connection, now: float, limit: int = 100) -> list[Row[Any]]:
    """The places to which nothing is sent now, for pages. A limit is over by itself."""
    still = or_(circuit.c.code != "rate-limited", circuit.c.until > now)
    query = select(circuit).where(circuit.c.code.is_not(None), still).order_by(circuit.c.changed_at.desc())
    return list(conn.execute(query.limit(limit)))


def _circuit(row: Row[Any]) -> Circuit:
    return Circuit(row.key, row.code, row.reason, row.until, row.failures, row.changed_at)
