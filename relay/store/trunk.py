"""What trunk showed: results of commits that upstream has merged. The only results that may speak for another change.

A result counts as trunk's when it ran on the commit that a change is compared with, and the change is against one of
trunk's branches (upstream also has branches of stacked changes that nobody has merged), or when the relay ran a commit
of trunk by itself (``event`` TRUNK_EVENT).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, RowMapping, and_, or_, select

from relay.store import results, setups
from relay.store.schema import dispatch, quarantine, result, shard
from selector.model import Mode, Outcome, Side, TestId, VariantResult
from selector.verify import Quarantine, Sample, fails
from selector.verify.causes import signature
from selector.verify.faults import fault_of

TRUNK_EVENT = "trunk"
BRANCHES = ("main", "master", "nightly", "viable/strict")
SIDES = (Side.BASE.value, Side.BASE_AGAIN.value)
NOT_EXECUTED = (Outcome.SKIPPED.value, Outcome.SELF_SKIPPED.value)
SAMPLES = 50
"""Newest runs of a variant that are looked at."""
_CHUNK = 400
_COLUMNS = (
    result.c.test,
    result.c.variant,
    result.c.outcome,
    result.c.mode,
    result.c.message,
    result.c.log_fault,
    result.c.seconds,
    result.c.recorded_at,
    dispatch.c.compare_sha,
    dispatch.c.id.label("dispatch_id"),
)


def is_trunk() -> ColumnElement[bool]:
    """The dispatches whose base is a commit of trunk."""
    ref = dispatch.c.base_ref
    trunk = or_(dispatch.c.event == TRUNK_EVENT, ref.in_(BRANCHES), ref.like("release/%"))
    # under the sheet and configs of a pull request of the downstream's nothing is learned about trunk
    return and_(trunk, dispatch.c.pin["sha"].as_string().is_(None))


def samples(
    conn: Connection, device: str, wanted: Mapping[str, TestId], *, without: str | None = None
) -> dict[str, list[Sample]]:
    """Runs of trunk by key, newest first, at most SAMPLES each. What an environment spoilt is no run; ``without``: a
    dispatch whose own results are not asked for."""
    found: dict[str, list[Sample]] = defaultdict(list)
    for row in _rows(conn, device, set(wanted.values())):
        one = _result(row)
        if one.key not in wanted or row.dispatch_id == without or len(found[one.key]) >= SAMPLES:
            continue
        if fails(one) and fault_of(one) is not None:
            continue
        failed = fails(one)
        found[one.key].append(Sample(row.compare_sha, failed, row.recorded_at, signature(one) if failed else ""))
    return dict(found)


def at_commit(
    conn: Connection, device: str, commit: str, wanted: Mapping[str, TestId], spec: Mapping[str, Any]
) -> dict[str, VariantResult]:
    """Results by key that are stored for a commit of trunk and were made under the same torch, sheet and configs as
    ``spec``, a shard's."""
    found: dict[str, VariantResult] = {}
    alike: dict[str, bool] = {}
    for row in _rows(conn, device, set(wanted.values()), commit=commit, more=(result.c.shard_id,)):
        one = _result(row)
        if one.key not in wanted or one.key in found or (fails(one) and fault_of(one) is not None):
            continue
        if row.shard_id not in alike:
            other = conn.execute(select(shard.c.spec).where(shard.c.id == row.shard_id)).scalar_one()
            alike[row.shard_id] = environment(other) == environment(spec)
        if alike[row.shard_id]:
            found[one.key] = one
    return found


def environment(spec: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a result depends on beside the commit."""
    runtime = spec.get("runtime") or {}
    return spec.get("device"), runtime.get("torch"), setups.digest_of(spec)


def costs(conn: Connection, device: str, since: float, limit: int = 200_000) -> list[Row[Any]]:
    """``test``, ``seconds``, ``outcome``, ``mode``, ``kernels``, ``message``, ``dispatch_id`` of trunk's results since
    then (epoch), newest first."""
    one = result.c
    query = (
        select(one.test, one.seconds, one.outcome, one.mode, one.kernels, one.message, one.dispatch_id)
        .join(dispatch, dispatch.c.id == result.c.dispatch_id)
        .where(
            dispatch.c.device == device,
            is_trunk(),
            result.c.side.in_(SIDES),
            result.c.recorded_at > since,
            result.c.outcome.not_in(NOT_EXECUTED),
        )
        .order_by(result.c.id.desc())
        .limit(limit)
    )
    return list(conn.execute(query))


def end_of_log(conn: Connection, device: str, one: VariantResult) -> RowMapping | None:
    """Where the end of what a variant printed is, as it failed on trunk last."""
    query = (
        select(*results.END)
        .join(dispatch, dispatch.c.id == result.c.dispatch_id)
        .where(
            result.c.test == str(one.test),
            result.c.variant == one.variant,
            result.c.side.in_(SIDES),
            result.c.tails.is_not(None),
            dispatch.c.device == device,
            is_trunk(),
        )
        .order_by(result.c.recorded_at.desc(), result.c.id.desc())
        .limit(1)
    )
    return conn.execute(query).mappings().one_or_none()


def quarantined(conn: Connection, device: str, now: float) -> list[Quarantine]:
    """Entries that still hold."""
    rows = conn.execute(
        select(quarantine).where(
            quarantine.c.device == device, quarantine.c.until > now, quarantine.c.ended_at.is_(None)
        )
    )
    return [Quarantine(TestId.parse(r.test), r.variant, r.reason, r.until, r.issue) for r in rows]


def _rows(
    conn: Connection,
    device: str,
    tests: Iterable[TestId],
    *,
    commit: str | None = None,
    more: Sequence[ColumnElement[Any]] = (),
) -> Iterator[Any]:
    names = sorted(str(test) for test in tests)
    for start in range(0, len(names), _CHUNK):
        query = (
            select(*_COLUMNS, *more)
            .join(dispatch, dispatch.c.id == result.c.dispatch_id)
            .where(
                result.c.test.in_(names[start : start + _CHUNK]),
                result.c.side.in_(SIDES),
                result.c.outcome.not_in(NOT_EXECUTED),
                dispatch.c.device == device,
                dispatch.c.compare_sha.is_not(None),
                is_trunk(),
            )
            .order_by(result.c.recorded_at.desc(), result.c.id.desc())
        )
        if commit is not None:
            query = query.where(dispatch.c.compare_sha == commit)
        yield from conn.execute(query)


def _result(row: Row[Any]) -> VariantResult:
    return VariantResult(
        TestId.parse(row.test),
        row.variant,
        Outcome(row.outcome),
        Mode(row.mode),
        Side.BASE,
        row.seconds,
        message=row.message,
        log_fault=row.log_fault,
    )
