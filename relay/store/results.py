"""Results: one row a variant and shard. The first report of a variant counts; repeats change nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, func, select
from sqlalchemy.dialects import postgresql, sqlite

from relay.store import test_names
from relay.store.schema import result, shard
from selector.model import Mode, Outcome, Side, TestId, VariantResult


def record(conn: Connection, shard_row: Row[Any], lines: Sequence[dict[str, Any]], now: float) -> int:
    """Stores validated result lines of the lease ``shard_row``. Returns how many were new."""
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
            log_tail=row.log_tail,
            reason=row.reason,
            attempt=row.attempt,
            worker=row.worker or "",
            lab=(labs or {}).get(row.worker or "", ""),
        )


def _count(conn: Connection, shard_id: str) -> int:
    return conn.execute(select(func.count()).select_from(result).where(result.c.shard_id == shard_id)).scalar_one()
