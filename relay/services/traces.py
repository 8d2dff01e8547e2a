"""What trunk's tests run, as workers tell it: objects of the artifact store, checked when they come in and when they
are read. The database knows one name alone, that of the table in use.

Only a shard that the relay made to be followed takes any: it is on a commit of trunk, never on a change of anybody's,
and a worker speaks of the tests that it was leased, of sources of torch, and of nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import structlog
from sqlalchemy import Engine, Row

from relay.artifacts import Artifacts, artifacts
from relay.errors import BadRequest, NotFound, Unavailable
from relay.services import handed_in, leasing
from relay.settings import Settings
from relay.store import chores
from relay.store.db import reading
from selector.discover.traced import Trace, TraceError, is_name, is_source, minor

log = structlog.get_logger(__name__)
CHORE = "traces"
MAX_BYTES = 16 << 20
"""of a shard's trace, packed"""
MAX_UNPACKED = 256 << 20
MOST_NAMES = 200_000
"""Functions and operators of one shard."""
HINT = "docs/worker-api.md says what a trace holds"


def take(engine: Engine, store: Artifacts, shard_id: str, token: str, data: bytes) -> None:
    """Keeps what a shard's tests ran, under its lease. LeaseLost; BadRequest where nobody asked, or for what cannot be;
    Unavailable."""
    row = leasing.holder(engine, shard_id, token)
    if not leasing.follows(row, leasing.event_of(engine, row)):
        raise BadRequest("nobody asked what this shard's tests run", "the lease says `follow` where it is asked")
    checked(data, row.spec)
    store.put(_piece(shard_id, row.fence), data)


def checked(data: bytes, spec: Mapping[str, Any]) -> Trace:
    """The trace of a shard's tests. Raises BadRequest that says what of it cannot be."""
    try:
        found = Trace.from_bytes(data, MAX_UNPACKED)
    except TraceError as exc:
        raise BadRequest(exc.message, HINT) from exc
    wrong = next(_wrong(found, spec), None)
    if wrong is not None:
        raise BadRequest(f"the trace: {wrong[:300]}", HINT)
    return found


def _wrong(found: Trace, spec: Mapping[str, Any]) -> Iterator[str]:
    torch = spec["runtime"]["torch"]
    if found.torch != torch:
        yield f"it is of torch {found.torch!r}, the shard's is {torch}"
    known = set(spec["tests"])
    for test in (*found.tests, *(unit.test for unit in found.units)):
        if str(test) not in known:
            yield f"{test} is not one of this shard's tests"
    seen = {(unit.test, unit.op) for unit in found.units}
    if len(seen) < len(found.units):
        yield "a test and op entry stands there twice"
    if any(unit.test not in found.tests for unit in found.units):
        yield "a test ran something and was not followed"
    if any(unit.op is not None and not is_name(unit.op, 128) for unit in found.units):
        yield "an op entry without a name"
    if any(unit.seconds > 86400 for unit in found.units):
        yield "a test that took more than a day"
    count = len(found.ops) + sum(map(len, found.functions.values()))
    if count > MOST_NAMES:
        yield f"{count} functions and operators, at most {MOST_NAMES} are taken"
    for path, names in found.functions.items():
        if not is_source(path):
            yield f"{path[:200]!r} is no source of torch"
        yield from (f"{path}: {name[:80]!r} is no name" for name in names if not is_name(name))
    yield from (f"{op[:80]!r} is no operator" for op in found.ops if not is_name(op, 128))


def pieces(store: Artifacts, rows: list[Row[Any]]) -> Iterator[tuple[Row[Any], Trace]]:
    """What the shards of a run told, those that came to their end, by the lease that ended them. Unavailable."""
    for row in rows:
        if row.state != "done":
            continue
        try:
            yield row, checked(store.get(_piece(row.id, row.fence)), row.spec)
        except NotFound:
            log.info("a shard was not followed", shard=row.id, worker=row.worker)  # an older worker, or its torch
        except BadRequest as exc:
            log.error("a kept trace is damaged", shard=row.id, error=exc.message)


def drop_pieces(store: Artifacts, rows: list[Row[Any]]) -> None:
    """Unavailable."""
    for row in rows:
        for fence in range(1, row.fence + 1):
            store.drop(_piece(row.id, fence))


def keep_table(store: Artifacts, table: Trace) -> str:
    """-> its name, by its content. Unavailable."""
    data = table.to_bytes()
    name = hashlib.sha256(data).hexdigest()
    store.put(_table(name), data)
    return name


def drop_table(store: Artifacts, name: str) -> None:
    """Unavailable."""
    store.drop(_table(name))


def read_table(store: Artifacts, name: str) -> Trace:
    """NotFound; Unavailable; TraceError for one that is not what was kept under its name."""
    data = store.get(_table(name))
    if hashlib.sha256(data).hexdigest() != name:
        raise TraceError(f"the table {name} is not what was kept", "it is made anew when it is gone")
    return Trace.from_bytes(data)


def in_use(engine: Engine, settings: Settings, device: str, torches: set[str]) -> Trace | None:
    """The table that a selection goes by: the operator's (`trace`), else the relay's own, where it is of a torch that a
    live worker has. What is not used is said in the log."""
    given = handed_in.trace(settings)
    minors = {minor(torch) for torch in torches}
    if given is not None:
        if not minors or minor(given.torch) in minors:
            return given
        log.warning("trace not used", path=str(settings.trace), torch=given.torch, workers=sorted(torches))
    own = _own(engine, settings) if settings.trace_seconds and device == settings.device else None
    return own if own is not None and minor(own.torch) in minors else None


def _own(engine: Engine, settings: Settings) -> Trace | None:
    with reading(engine) as conn:
        row = chores.get(conn, CHORE)
    name = ((row.memory if row is not None else None) or {}).get("table")
    if not name:
        return None
    try:
        return _read_once(artifacts(settings), name)
    except (NotFound, Unavailable, TraceError) as exc:
        log.warning("trace not used", table=name, error=exc.message)
        return None


@lru_cache(maxsize=1)
def _read_once(store: Artifacts, name: str) -> Trace:
    return read_table(store, name)


def _piece(shard_id: str, fence: int) -> str:
    return f"traces/pieces/{shard_id[-2:]}/{shard_id}/{fence}.gz"


def _table(name: str) -> str:
    return f"traces/tables/{name}.gz"
