"""Results: one row a variant and shard. The first report of a variant counts; repeats change nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, RowMapping, func, select
from sqlalchemy.dialects import postgresql, sqlite

from relay.store import test_names
from relay.store.schema import result, shard
from relay.store.shard_logs import TAILS
from selector.model import Mode, Outcome, Side, TestId, VariantResult

END = (result.c.shard_id, result.c.test, result.c.variant, result.c.attempt, TAILS)
"""Columns by which the end of a variant's log is found."""


def record(conn: Connection, shard_row: Row[Any], lines: Sequence[dict[str, Any]], now: float) -> int:
    """Stores validated result lines of the lease ``shard_row``, as ``relay.services.log_tails.keep`` gives them.
    Returns how many were new."""
    if not lines:
        return 0
    rows = [
        {
            "attempt": 0,
            **line,
            "dispatch_id": shard_row.dispatch_id,
            "shard_id": shard_row.id,
            "side": shard_row.side,
            "fence": shard_row.fence,
            "recorded_at": now,
        }
        for line in lines
    ]
    dialect = sqlite if conn.dialect.name == "sqlite" else postgresql
    before = _count(conn, shard_row.id)
    conn.execute(
        dialect.insert(result).on_conflict_do_nothing(index_elements=["shard_id", "test", "variant", "attempt"]), rows
    )
    test_names.note(conn, [line["test"] for line in lines])
    return _count(conn, shard_row.id) - before


def done_keys(conn: Connection, shard_id: str) -> list[str]:
    """``file::Class::variant`` of everything already reported for the shard."""
    rows = conn.execute(select(result.c.test, result.c.variant).where(result.c.shard_id == shard_id)).all()
    return [f"{test.rpartition('::')[0]}::{variant}" for test, variant in rows]


def of_side(
    conn: Connection, dispatch_id: str, side: Side, labs: Mapping[str, str] | None = None
) -> Iterator[VariantResult]:
    """All results of one side of a run, as the verify stage takes them. ``labs``: worker -> lab."""
    rows = conn.execute(
        select(result, shard.c.worker)
        .join(shard, shard.c.id == result.c.shard_id)
        .where(result.c.dispatch_id == dispatch_id, result.c.side == side.value)
        .order_by(result.c.id)
    )
    for row in rows:
        yield VariantResult(
            test=TestId.parse(row.test),
            variant=row.variant,
            outcome=Outcome(row.outcome),
            mode=Mode(row.mode),
            side=side,
            seconds=row.seconds,
            kernels=row.kernels,
            modelled_us=row.modelled_us,
            op=row.op,
            dtype=row.dtype,
            message=row.message,
            log_fault=row.log_fault,
            reason=row.reason,
            attempt=row.attempt,
            worker=row.worker or "",
            lab=(labs or {}).get(row.worker or "", ""),
        )


def end_of_log(conn: Connection, dispatch_id: str, one: VariantResult) -> RowMapping | None:
    """Where the end of what ``one`` of a run printed is, as ``relay.services.log_tails.Ends`` takes it."""
    query = select(*END).where(
        result.c.dispatch_id == dispatch_id,
        result.c.side == one.side.value,
        result.c.test == str(one.test),
        result.c.variant == one.variant,
        result.c.attempt == one.attempt,
        result.c.tails.is_not(None),
    )
    return conn.execute(query.order_by(result.c.id.desc()).limit(1)).mappings().one_or_none()


def _count(conn: Connection, shard_id: str) -> int:
    return conn.execute(select(func.count()).select_from(result).where(result.c.shard_id == shard_id)).scalar_one()
