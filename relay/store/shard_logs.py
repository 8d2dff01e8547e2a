"""What tests of a shard printed, and which parts of it are in the artifact store: the log in pieces, one log a lease
(``fence``), and the ends of what failing variants printed, an object for each report that had some."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from sqlalchemy import ColumnElement, Connection, Row, and_, delete, func, select

from relay.store.schema import log_piece, log_tail, result
from relay.store.upsert import insert_once

AnyRow: TypeAlias = Row[*tuple[Any, ...]]
TAILS = (
    select(log_tail.c.name)
    .where(log_tail.c.shard_id == result.c.shard_id, log_tail.c.name == result.c.tails)
    .correlate(result)
    .scalar_subquery()
    .label("tails")
)
"""A column for whoever selects results: the object that has the end of a variant's log, while it is kept."""


def add(conn: Connection, shard_id: str, fence: int, begin: int, size: int, now: float) -> bool:
    """Notes a piece that is in the store. False: it was there already."""
    key = {"shard_id": shard_id, "fence": fence, "begin": begin}
    return insert_once(conn, log_piece, {**key, "size": size, "stored_at": now})


def end(conn: Connection, shard_id: str, fence: int) -> int:
    """Bytes of the log so far: where the next piece begins."""
    whole = func.coalesce(func.max(log_piece.c.begin + log_piece.c.size), 0)
    return int(conn.execute(select(whole).where(_of(shard_id, fence))).scalar_one())


def newest(conn: Connection, shard_id: str) -> int | None:
    """The newest lease that left a log."""
    found: int | None = conn.execute(
        select(func.max(log_piece.c.fence)).where(log_piece.c.shard_id == shard_id)
    ).scalar_one()
    return found


def pieces(conn: Connection, shard_id: str, fence: int, start: int, stop: int) -> Sequence[AnyRow]:
    """The pieces (begin, size) that have bytes of ``start`` to ``stop``, in order."""
    return conn.execute(
        select(log_piece.c.begin, log_piece.c.size)
        .where(_of(shard_id, fence), log_piece.c.begin < stop, log_piece.c.begin + log_piece.c.size > start)
        .order_by(log_piece.c.begin)
    ).all()


def sizes(conn: Connection, shard_ids: Sequence[str]) -> dict[str, int]:
    """shard -> bytes of its newest log; shards without one are left out."""
    rows = conn.execute(
        select(log_piece.c.shard_id, log_piece.c.fence, func.max(log_piece.c.begin + log_piece.c.size).label("size"))
        .where(log_piece.c.shard_id.in_(list(shard_ids)))
        .group_by(log_piece.c.shard_id, log_piece.c.fence)
        .order_by(log_piece.c.fence)
    )
    return {row.shard_id: int(row.size) for row in rows}


def old(conn: Connection, before: float, limit: int) -> Sequence[AnyRow]:
    """Pieces stored before a time, the oldest first."""
    query = select(log_piece.c.shard_id, log_piece.c.fence, log_piece.c.begin).where(log_piece.c.stored_at < before)
    return conn.execute(query.order_by(log_piece.c.stored_at).limit(limit)).all()


def drop(conn: Connection, shard_id: str, fence: int, begin: int) -> None:
    """Forgets a piece, which must be out of the store."""
    conn.execute(delete(log_piece).where(_of(shard_id, fence), log_piece.c.begin == begin))


def add_tails(conn: Connection, shard_id: str, name: str, now: float) -> bool:
    """Notes an object with ends of logs that is in the store. False: it was there already."""
    return insert_once(conn, log_tail, {"shard_id": shard_id, "name": name, "stored_at": now})


def old_tails(conn: Connection, before: float, limit: int) -> Sequence[AnyRow]:
    """Objects (shard_id, name) stored before a time, the oldest first."""
    query = select(log_tail.c.shard_id, log_tail.c.name).where(log_tail.c.stored_at < before)
    return conn.execute(query.order_by(log_tail.c.stored_at).limit(limit)).all()


def drop_tails(conn: Connection, shard_id: str, name: str) -> None:
    """Forgets an object, which must be out of the store."""
    conn.execute(delete(log_tail).where(log_tail.c.shard_id == shard_id, log_tail.c.name == name))


def _of(shard_id: str, fence: int) -> ColumnElement[bool]:
    return and_(log_piece.c.shard_id == shard_id, log_piece.c.fence == fence)
