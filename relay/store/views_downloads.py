"""All results of a run, a page at a time: no reader, however slow, holds a transaction open between two pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Engine, func, select, tuple_

from relay.errors import NotFound
from relay.store.db import reading
from relay.store.schema import dispatch, result, shard
from relay.store.shard_logs import TAILS
from relay.store.views_parts import plain

PAGE = 1000
COLUMNS = (
    "side", "test", "variant", "attempt", "op", "dtype", "mode", "outcome", "reason", "seconds", "kernels",
    "modelled_us", "meter", "message", "shard_id", "recorded_at",
)  # fmt: skip


def head(engine: Engine, id: str, side: str | None) -> dict[str, Any]:
    """The run in brief, ``counts`` of its results by (outcome, mode), and their ``seconds``. NotFound."""
    wanted = [result.c.dispatch_id == id, *([result.c.side == side] if side else [])]
    with reading(engine) as conn:
        run = conn.execute(
            select(
                dispatch.c.id, dispatch.c.downstream, dispatch.c.created_at, dispatch.c.started_at, dispatch.c.closed_at
            ).where(dispatch.c.id == id)
        ).one_or_none()
        if run is None:
            raise NotFound(f"no run {id}", "its address comes from a check run, from /pr/<number> or from /")
        rows = conn.execute(
            select(
                result.c.outcome, result.c.mode, func.count().label("n"), func.sum(result.c.seconds).label("seconds")
            )
            .where(*wanted)
            .group_by(result.c.outcome, result.c.mode)
        ).all()
    return {
        **plain(run),
        "counts": {(row.outcome, row.mode): row.n for row in rows},
        "seconds": float(sum(row.seconds for row in rows)),
    }


def pages(engine: Engine, id: str, side: str | None) -> Iterator[list[dict[str, Any]]]:
    """Its results, shard by shard, by test and variant; at most PAGE at a time."""
    mine = [shard.c.dispatch_id == id, *([shard.c.side == side] if side else [])]
    with reading(engine) as conn:
        shards = conn.execute(select(shard.c.id).where(*mine).order_by(shard.c.side, shard.c.index)).scalars().all()
    key = tuple_(result.c.test, result.c.variant, result.c.attempt)
    for one in shards:
        last: tuple[Any, ...] | None = None
        while True:
            query = select(*(result.c[name] for name in COLUMNS), TAILS).where(result.c.shard_id == one)
            if last is not None:
                query = query.where(key > tuple_(*last))
            with reading(engine) as conn:
                rows = [plain(row) for row in conn.execute(query.order_by(*key).limit(PAGE))]
            if rows:
                yield rows
            if len(rows) < PAGE:
                break
            last = (rows[-1]["test"], rows[-1]["variant"], rows[-1]["attempt"])
