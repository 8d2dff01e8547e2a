"""Upgrades: pairs of releases and nights of a ref, what their difference is and what running it showed."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, and_, or_, select, update

from relay.store import upgrade_changes
from relay.store.ids import new_id
from relay.store.schema import dispatch, result, upgrade
from relay.store.upsert import insert_once
from selector.model import Mode, Outcome, Side, TestId, VariantResult

OPEN = ("due", "running")
LIST = [c for c in upgrade.c if c.name not in ("report", "head", "progress", "outcome")]
"""columns of a list: none of the large ones"""
PAGE = [c for c in upgrade.c if c.name != "report"]
_NOT_HEAD = ("changes", "plan", "entries")


def ask(
    conn: Connection,
    *,
    kind: str,
    device: str,
    new: str,
    now: float,
    old: str | None = None,
    ref: str = "",
    night: str = "",
) -> str | None:
    """Asks for a night of a ref, or for a pair of releases; -> its id, None when the same was asked for before."""
    parts = (device, ref, night) if kind == "nightly" else (device, str(old), new)
    row = {
        "id": new_id(now),
        "key": hashlib.sha256("\0".join((kind, *parts)).encode()).hexdigest(),
        "kind": kind,
        "device": device,
        "ref": ref,
        "night": night,
        "old": old,
        "new": new,
        "state": "due",
        "due_at": now,
        "claim_until": 0.0,
        "attempts": 0,
        "tries": 0,
        "created_at": now,
    }
    return str(row["id"]) if insert_once(conn, upgrade, row) else None


def get(conn: Connection, id: str) -> Row[Any] | None:
    return conn.execute(select(upgrade).where(upgrade.c.id == id)).one_or_none()


def claim(conn: Connection, id: str, token: str, now: float, until: float) -> Row[Any] | None:
    """The row for one process alone; None: it is closed, or another process has it."""
    mine = update(upgrade).where(upgrade.c.id == id, upgrade.c.state.in_(OPEN), upgrade.c.claim_until <= now)
    if conn.execute(mine.values(claim=token, claim_until=until)).rowcount != 1:
        return None
    return get(conn, id)


def move(conn: Connection, id: str, token: str, **values: Any) -> bool:
    """Writes what the holder of the claim found, and gives the claim up (or keeps it: ``claim_until``). False: it is
    another one's by now."""
    given = {"claim_until": 0.0, **values}
    mine = update(upgrade).where(upgrade.c.id == id, upgrade.c.claim == token, upgrade.c.state.in_(OPEN))
    return conn.execute(mine.values(**given)).rowcount == 1


def keep(conn: Connection, id: str, token: str, value: dict[str, Any], **values: Any) -> bool:
    """``move`` with the report of the comparison (``relay.upgrade_report.to_value``): whole, and as pages read it."""
    head = {name: part for name, part in value.items() if name not in _NOT_HEAD}
    head |= {name: len(value[name]) for name in ("changes", "entries")}
    if not move(conn, id, token, report=pack(value), head=head, **values):
        return False
    upgrade_changes.add(conn, id, value["changes"])
    return True


def pack(value: dict[str, Any]) -> bytes:
    return zlib.compress(json.dumps(value, separators=(",", ":")).encode(), 6)


def unpack(data: bytes | None) -> dict[str, Any] | None:
    found: dict[str, Any] | None = json.loads(zlib.decompress(data)) if data is not None else None
    return found


def nights(conn: Connection, device: str, ref: str | None = None, limit: int = 60) -> Sequence[Row[Any]]:
    """Nights (of a ref), newest first, without their reports."""
    query = select(*LIST).where(upgrade.c.kind == "nightly", upgrade.c.device == device)
    if ref is not None:
        query = query.where(upgrade.c.ref == ref)
    return conn.execute(query.order_by(upgrade.c.night.desc(), upgrade.c.id.desc()).limit(limit)).all()


def releases(conn: Connection, limit: int = 60) -> Sequence[Row[Any]]:
    """Pairs of releases, newest first, without their reports."""
    query = select(*LIST).where(upgrade.c.kind == "release")
    return conn.execute(query.order_by(upgrade.c.created_at.desc()).limit(limit)).all()


def before(conn: Connection, night: Row[Any]) -> Sequence[Row[Any]]:
    """Earlier nights of the same ref, newest first, without their reports."""
    return conn.execute(
        select(*LIST)
        .where(
            upgrade.c.kind == "nightly",
            upgrade.c.device == night.device,
            upgrade.c.ref == night.ref,
            upgrade.c.night < night.night,
        )
        .order_by(upgrade.c.night.desc())
    ).all()


def of_pair(conn: Connection, old: str, new: str) -> Row[Any] | None:
    """The newest upgrade between two names, without its report: as asked for, commits (also by their first letters, at
    least seven), or nights."""

    def side(word: str, name: Any, sha: Any, night: Any) -> Any:
        ways = [name == word]
        if night is not None:
            ways.append(and_(upgrade.c.kind == "nightly", night == word))
        if len(word) >= 7 and all(c in "0123456789abcdef" for c in word):
            ways.append(sha.like(f"{word}%"))
        return or_(*ways)

    return conn.execute(
        select(*PAGE)
        .where(
            side(old, upgrade.c.old, upgrade.c.old_sha, None),
            side(new, upgrade.c.new, upgrade.c.new_sha, upgrade.c.night),
        )
        .order_by(upgrade.c.created_at.desc())
        .limit(1)
    ).one_or_none()


def report(conn: Connection, id: str) -> dict[str, Any] | None:
    """The whole report; None before the comparison."""
    return unpack(conn.execute(select(upgrade.c.report).where(upgrade.c.id == id)).scalar_one())


def run_states(conn: Connection, ids: Sequence[str]) -> dict[str, str]:
    return {r.id: r.state for r in conn.execute(select(dispatch.c.id, dispatch.c.state).where(dispatch.c.id.in_(ids)))}


def results_of(conn: Connection, dispatch_id: str) -> list[VariantResult]:
    """What a run showed, every repeat."""
    rows = conn.execute(
        select(
            result.c.test, result.c.variant, result.c.outcome, result.c.mode, result.c.message, result.c.log_fault
        ).where(result.c.dispatch_id == dispatch_id)
    )
    return [
        VariantResult(
            TestId.parse(r.test), r.variant, Outcome(r.outcome), Mode(r.mode), Side.BASE,
            message=r.message, log_fault=r.log_fault,
        )
        for r in rows
    ]  # fmt: skip


def evaluated(conn: Connection, dispatch_id: str | None) -> set[str]:
    """Tests of which a run has a result."""
    if dispatch_id is None:
        return set()
    return set(conn.execute(select(result.c.test).where(result.c.dispatch_id == dispatch_id).distinct()).scalars())
