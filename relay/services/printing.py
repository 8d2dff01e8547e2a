"""What tests printed: taken from workers piece by piece, read again by the page a window at a time."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from sqlalchemy import Engine

from relay.artifacts import Artifacts
from relay.errors import BadRequest, Conflict, NotFound
from relay.store import shard_logs, shards
from relay.store.db import reading

MAX_PIECE = 1 << 20
MAX_LOG = 512 << 20
"""Bytes of one lease's log that are taken at all."""


def take(engine: Engine, store: Artifacts, shard_id: str, token: str, begin: int, data: bytes, now: float) -> int:
    """Keeps the bytes of a lease's log from ``begin`` on; -> where the next piece begins. One that is known already
    changes nothing. LeaseLost; Conflict for a gap; BadRequest for what is too much."""
    if not data:
        raise BadRequest("an empty piece of a log", "send at least one byte")
    if begin + len(data) > MAX_LOG:
        raise BadRequest(f"the log is over {MAX_LOG >> 20} MiB", "keep its beginning")
    with reading(engine) as conn:
        row = shards.held(conn, shard_id, token, write=False)
        known = shard_logs.end(conn, shard_id, row.fence)
    if begin < known:
        return known
    if begin > known:
        raise Conflict(f"the log is known up to byte {known}, not {begin}", "send what is between first")
    store.put(name(shard_id, row.fence, begin), zlib.compress(data, 3))
    with engine.begin() as conn:
        row = shards.held(conn, shard_id, token)
        shard_logs.add(conn, shard_id, row.fence, begin, len(data), now)
    return begin + len(data)


def window(engine: Engine, store: Artifacts, shard_id: str, fence: int, start: int, stop: int) -> bytes:
    """The bytes ``start`` to ``stop`` of a log. NotFound when a piece of them is gone."""
    return b"".join(chunks(engine, store, shard_id, fence, start, stop))


def chunks(engine: Engine, store: Artifacts, shard_id: str, fence: int, start: int, stop: int) -> Iterator[bytes]:
    """The same piece by piece, however long it is."""
    with reading(engine) as conn:
        found = shard_logs.pieces(conn, shard_id, fence, start, stop)
    for piece in found:
        packed = store.get(name(shard_id, fence, piece.begin))
        try:
            data = zlib.decompress(packed)
        except zlib.error as exc:
            raise NotFound(f"byte {piece.begin} of this log cannot be read: {exc}", "its artifact is damaged") from exc
        yield data[max(0, start - piece.begin) : max(0, stop - piece.begin)]


def forget(engine: Engine, store: Artifacts, before: float, limit: int) -> int:
    """Drops up to ``limit`` pieces stored before a time, first from the store and then here; -> how many."""
    with reading(engine) as conn:
        old = shard_logs.old(conn, before, limit)
    gone = store.drop_in_order(name(piece.shard_id, piece.fence, piece.begin) for piece in old)
    with engine.begin() as conn:
        for piece in old[:gone]:
            shard_logs.drop(conn, piece.shard_id, piece.fence, piece.begin)
    return gone


def name(shard_id: str, fence: int, begin: int) -> str:
    """Where a piece lies in the store."""
    return f"logs/{shard_id[-2:]}/{shard_id}/{fence}/{begin:012d}.z"
