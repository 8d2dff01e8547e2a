"""Which commit of trunk broke a variant: searches that go on, and what they found."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, select, update

from relay.store.ids import new_id
from relay.store.schema import bisection
from relay.store.upsert import insert_once
from selector.discover.measured import PastFailure
from selector.model import TestId


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
    conn: Connection,
    id: str,
    *,
    state: str,
    reason: str,
    now: float,
    first_bad: str | None,
    last_good: str | None,
    paths: Sequence[str] | None = None,
) -> None:
    """``state``: found, or given-up; ``paths``: what the first bad commit changed, where that is known."""
    found = {"first_bad": first_bad, "last_good": last_good, "paths": None if paths is None else list(paths)}
    conn.execute(
        update(bisection)
        .where(bisection.c.id == id, bisection.c.state == "open")
        .values(state=state, reason=reason, closed_at=now, **found)
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


def broken_by_paths(
    conn: Connection, device: str, paths: Collection[str], since: float, limit: int
) -> tuple[PastFailure, ...]:
    """Tests that commits of trunk broke which changed one of ``paths``, by the ``limit`` newest searches that ended
    after ``since`` (epoch): how many such commits, by path and test."""
    query = (
        select(bisection.c.test, bisection.c.first_bad, bisection.c.paths)
        .where(bisection.c.device == device, bisection.c.state == "found", bisection.c.closed_at > since)
        .order_by(bisection.c.closed_at.desc())
        .limit(limit)
    )
    commits: dict[tuple[str, str], set[str]] = {}
    for row in conn.execute(query):
        for path in row.paths or ():
            if path in paths:
                commits.setdefault((path, row.test), set()).add(row.first_bad)
    return tuple(PastFailure(path, TestId.parse(test), len(by)) for (path, test), by in sorted(commits.items()))
