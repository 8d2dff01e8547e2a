"""Runs that have a verdict, as the ranker that is learned from them needs them: who may be believed, what was planned,
what the change broke."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, Row, select

from relay.store import trunk
from relay.store.schema import dispatch, plan, result
from selector.model import Side, TestId

RUNS = 20_000
"""Newest runs that are looked at."""


def runs(conn: Connection, device: str) -> Iterator[Row[Any]]:
    """``id``, ``upstream``, ``pr_number``, ``head_sha``, ``author_trusted``, ``on_trunk`` (it is a change against
    trunk's branches, under the device's own configs), ``closed_at`` and ``verdict`` of the runs of changes, newest
    first."""
    one = dispatch.c
    query = (
        select(
            one.id,
            one.upstream,
            one.pr_number,
            one.head_sha,
            one.author_trusted,
            trunk.is_trunk().label("on_trunk"),
            one.closed_at,
            one.verdict,
        )
        .where(one.device == device, one.state == "completed", one.event != trunk.TRUNK_EVENT, one.code.is_not(None))
        .order_by(one.created_at.desc(), one.id.desc())
        .limit(RUNS)
    )
    for row in conn.execute(query.execution_options(yield_per=200)):
        if row.verdict:
            yield row


def planned(conn: Connection, dispatch_id: str) -> tuple[dict[str, tuple[str, ...]], dict[str, Any] | None]:
    """(codes by planned test, what rankers saw of them). None: nothing is kept of it."""
    row = conn.execute(select(plan.c.tests, plan.c.shadow).where(plan.c.dispatch_id == dispatch_id)).one_or_none()
    if row is None:
        return {}, None
    return {one["test"]: tuple(one["codes"]) for one in row.tests}, (row.shadow or {}).get("seen")


def executed(conn: Connection, dispatch_id: str) -> frozenset[TestId]:
    """Tests of which a variant ran at the head."""
    query = (
        select(result.c.test)
        .where(
            result.c.dispatch_id == dispatch_id,
            result.c.side == Side.HEAD.value,
            result.c.outcome.not_in(trunk.NOT_EXECUTED),
        )
        .distinct()
    )
    return frozenset(map(TestId.parse, conn.execute(query).scalars()))
