"""Which commit of trunk broke a variant: searches that go on, and what they found."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, select, update

from relay.store.ids import new_id
from relay.store.schema import bisection
from relay.store.upsert import insert_once


def open_(
    conn: Connection, *, device: str, test: str, variant: str, bad_sha: str, spec: dict[str, Any], now: float
) -> bool:
    """Begins a search for the commit that made a variant fail as ``bad_sha`` does. False: it was begun before."""
    key = hashlib.sha256("\0".join((device, test, variant, bad_sha)).encode()).hexdigest()
    return insert_once(
        conn,
        bisection,
        {
            "id": new_id(),
            "key": key,
            "device": device,
            "test": test,
            "variant": variant,
            "bad_sha": bad_sha,
            "spec": spec,
            "state": "open",
            "runs": 0,
            "created_at": now,
        },
    )


def going_on(conn: Connection) -> Sequence[Row[Any]]:
    return conn.execute(select(bisection).where(bisection.c.state == "open").order_by(bisection.c.created_at)).all()


def count_run(conn: Connection, id: str) -> None:
    conn.execute(update(bisection).where(bisection.c.id == id).values(runs=bisection.c.runs + 1))


def close(
    conn: Connection, id: str, *, state: str, reason: str, now: float, first_bad: str | None, last_good: str | None
) -> None:
    """``state``: found, or given-up."""
    conn.execute(
        update(bisection)
        .where(bisection.c.id == id, bisection.c.state == "open")
        .values(state=state, reason=reason, first_bad=first_bad, last_good=last_good, closed_at=now)
    )


def first_bad(conn: Connection, device: str, keys: Iterable[str]) -> Mapping[str, str]:
    """key (``file::Class::variant``) -> the commit that broke it, the newest search's."""
    wanted = set(keys)
    rows = conn.execute(
        select(bisection)
        .where(bisection.c.device == device, bisection.c.state == "found")
        .order_by(bisection.c.closed_at)
    )
    found = {f"{row.test.rpartition('::')[0]}::{row.variant}": str(row.first_bad) for row in rows}
    return {key: sha for key, sha in found.items() if key in wanted}
