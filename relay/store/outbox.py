"""The outbox: effects on the outside, asked for in the transaction that has the reason for them. See docs/outbox.md.

``due_at`` is the pump's (when to hand the row over again), ``not_before`` the senders': a claim or a backoff. A sender
claims by moving ``not_before`` in one UPDATE that also counts the try and marks the row ambiguous, so that a crash
between a send and its record is seen by the next sender.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, exists, select, update

from relay.store.schema import outbox
from relay.store.upsert import insert_new, insert_once

CLAIM_S = 14.0
"""Longer than one effect can take (relay.github.client.TIMEOUT); a killed sender's row is free again after it."""

_earlier = outbox.alias("earlier")
_is_head = ~exists(
    select(_earlier.c.id).where(
        _earlier.c.stream == outbox.c.stream, _earlier.c.id < outbox.c.id, _earlier.c.state == "due"
    )
)
"""Effects of a stream leave in order. One that is parked or dropped does not hold up the rest."""


@dataclass(frozen=True, slots=True)
class Due:
    """A row to hand over; ``attempts`` are the sends so far."""

    id: int
    attempts: int


def enqueue(
    conn: Connection,
    *,
    key: str,
    kind: str,
    stream: str,
    target: str,
    payload: dict[str, Any],
    now: float,
    dispatch_id: str | None = None,
    job_id: str | None = None,
) -> bool:
    """Asks for an effect, due now, in the caller's transaction. False: the effect ``key`` was asked for before."""
    row = request(key, kind, stream, target, payload, now=now, dispatch_id=dispatch_id, job_id=job_id)
    return insert_once(conn, outbox, row)


def enqueue_all(conn: Connection, requests: Sequence[Mapping[str, Any]]) -> int:
    """Asks for effects (of ``request``) together. Returns how many were not asked for before."""
    return len(insert_new(conn, outbox, requests))


def request(
    key: str,
    kind: str,
    stream: str,
    target: str,
    payload: dict[str, Any],
    *,
    now: float,
    at: float | None = None,
    dispatch_id: str | None = None,
    job_id: str | None = None,
) -> dict[str, Any]:
    """An effect asked for at ``now`` that is due at ``at`` (default: now), as the table has it."""
    at = now if at is None else at
    return {
        "key": key,
        "kind": kind,
        "stream": stream,
        "target": target,
        "payload": payload,
        "dispatch_id": dispatch_id,
        "job_id": job_id,
        "state": "due",
        "due_at": at,
        "not_before": at,
        "attempts": 0,
        "ambiguous": False,
        "created_at": now,
    }


def due(conn: Connection, now: float, limit: int) -> list[Due]:
    """The heads of the streams that may be handed over, oldest first. In PostgreSQL the rows are locked for the
    caller, who moves their ``due_at``."""
    query = (
        select(outbox.c.id, outbox.c.attempts)
        .where(outbox.c.state == "due", outbox.c.due_at <= now, outbox.c.not_before <= now, _is_head)
        .order_by(outbox.c.due_at, outbox.c.id)
        .limit(limit)
    )
    if conn.dialect.name == "postgresql":
        query = query.with_for_update(skip_locked=True, of=outbox)
    return [Due(row.id, row.attempts) for row in conn.execute(query)]


def make_due(conn: Connection, now: float) -> None:
    """After the broker lost its memory: what waits to be handed over again is due as soon as a sender may have it."""
    conn.execute(
        update(outbox)
        .where(outbox.c.state == "due", outbox.c.due_at > now, outbox.c.due_at > outbox.c.not_before)
        .values(due_at=outbox.c.not_before)
    )


def was_in_doubt(conn: Connection, row: Row[Any]) -> bool:
    """Whether an earlier effect of the row's stream was tried more than once, so that one of its tries may still come
    to something."""
    earlier = select(outbox.c.id).where(outbox.c.stream == row.stream, outbox.c.id < row.id, outbox.c.attempts > 1)
    return conn.execute(earlier.limit(1)).first() is not None


def of_stream(conn: Connection, stream: str) -> list[Row[Any]]:
    """All effects of a stream in their order."""
    return list(conn.execute(select(outbox).where(outbox.c.stream == stream).order_by(outbox.c.id)))


def get(conn: Connection, outbox_id: int) -> Row[Any] | None:
    return conn.execute(select(outbox).where(outbox.c.id == outbox_id)).one_or_none()


def sendable(conn: Connection, ids: Sequence[int], now: float) -> list[Row[Any]]:
    """Those of the rows that may be sent now: due, at the head of their streams, neither claimed nor backing off."""
    query = (
        select(outbox)
        .where(outbox.c.id.in_(ids), outbox.c.state == "due", outbox.c.not_before <= now, _is_head)
        .order_by(outbox.c.id)
    )
    return list(conn.execute(query))


def claim(conn: Connection, row: Row[Any], now: float) -> bool:
    """Takes ``row``, as it was read, for CLAIM_S seconds. False: another sender was faster. ``row`` keeps what was read
    (``ambiguous`` of the tries before this one)."""
    taken = conn.execute(
        update(outbox)
        .where(
            outbox.c.id == row.id,
            outbox.c.state == "due",
            outbox.c.attempts == row.attempts,
            outbox.c.not_before <= now,
        )
        .values(
            attempts=row.attempts + 1,
            ambiguous=True,
            not_before=now + CLAIM_S,
            due_at=now + CLAIM_S,
            last_error=None,  # of the try that begins nothing is known: by this it is told from one that waits
        )
    )
    return taken.rowcount == 1


def mark_sent(conn: Connection, outbox_id: int, *, status: int | None, response: Any, now: float) -> bool:
    """The other side has it. No claim is asked for: the news is true whoever brings it."""
    return _finish(
        conn,
        outbox_id,
        state="sent",
        due_at=None,
        ambiguous=False,
        last_status=status,
        last_error=None,
        response=response,
        sent_at=now,
    )


def mark_retry(
    conn: Connection,
    row: Row[Any],
    *,
    claimed: bool,
    at: float,
    ambiguous: bool,
    status: int | None,
    error: str,
) -> bool:
    """Again at ``at``. ``claimed``: whether the try came to its claim. False: another sender has the row by now."""
    attempts = row.attempts + 1
    changed = conn.execute(
        update(outbox)
        .where(
            outbox.c.id == row.id,
            outbox.c.state == "due",
            outbox.c.attempts == (attempts if claimed else row.attempts),
        )
        .values(attempts=attempts, due_at=at, not_before=at, ambiguous=ambiguous, last_status=status, last_error=error)
    )
    return changed.rowcount == 1


def postpone(conn: Connection, outbox_ids: Sequence[int], at: float, reason: str) -> None:
    """Nothing was tried, and nobody tries before ``at``: somebody asked us to wait, or a budget is used up."""
    later = update(outbox).where(outbox.c.id.in_(outbox_ids), outbox.c.state == "due")
    conn.execute(later.values(due_at=at, not_before=at, last_error=reason))


def retarget(conn: Connection, outbox_id: int, target: str) -> None:
    """The repository has another name now."""
    conn.execute(update(outbox).where(outbox.c.id == outbox_id).values(target=target))


def mark_parked(
    conn: Connection, outbox_id: int, *, ambiguous: bool, status: int | None, error: str, now: float
) -> bool:
    """Not worth another try until somebody mends the cause."""
    return _finish(
        conn,
        outbox_id,
        state="parked",
        due_at=None,
        not_before=now,
        ambiguous=ambiguous,
        last_status=status,
        last_error=error,
    )


def mark_dropped(conn: Connection, outbox_id: int, *, reason: str) -> bool:
    """Nobody wants it any more."""
    return _finish(conn, outbox_id, state="dropped", due_at=None, last_error=reason)


def _finish(conn: Connection, outbox_id: int, **values: Any) -> bool:
    ended = conn.execute(update(outbox).where(outbox.c.id == outbox_id, outbox.c.state == "due").values(**values))
    return ended.rowcount == 1
