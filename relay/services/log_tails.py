"""The end of what a failing variant printed: taken from a report's lines into the artifact store, and read again.

A report's ends are one object, called by its content: a report that is sent again is the same object, and a page of
failures reads a few small ones. What a verdict needs of them, the fault of the environment that they tell of, is looked
for when they come in and stands with the result; so no verdict waits for the store, and none differs for want of it.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import structlog
from prometheus_client import Counter
from sqlalchemy import Engine

from relay.artifacts import Artifacts
from relay.errors import NotFound, Unavailable
from relay.store import shard_logs
from relay.store.db import reading
from selector.verify import environment_fault

log = structlog.get_logger(__name__)
LOST = Counter("relay_log_tails_lost", "Ends of failing variants' logs that the artifact store did not take.")
OBJECTS = 32
"""Objects that one reader remembers."""
Line = dict[str, Any]


def keep(store: Artifacts, shard_id: str, lines: Sequence[Line]) -> tuple[list[Line], str | None]:
    """Puts the lines' ``log_tail`` into the store; -> the lines as the database takes them (``tails``, ``log_fault``),
    and the object's name; None when there is none. A store that does not take it costs the text, not the results."""
    ends = [[x["test"], x["variant"], x.get("attempt") or 0, x["log_tail"]] for x in lines if x.get("log_tail")]
    made = None
    if ends:
        told = json.dumps(ends, separators=(",", ":")).encode()
        made = hashlib.sha256(told).hexdigest()[:32]
        try:
            store.put(name(shard_id, made), zlib.compress(told, 6))
        except Unavailable as exc:
            log.warning("ends of logs are lost", shard=shard_id, number=len(ends), why=exc.message)
            LOST.inc(len(ends))
            made = None
    return [_row(line, made) for line in lines], made


def _row(line: Line, made: str | None) -> Line:
    row = {key: value for key, value in line.items() if key != "log_tail"}
    tail = line.get("log_tail")
    return row | {"tails": made if tail else None, "log_fault": environment_fault(tail)}


class Ends:
    """Reads them: an object once, however many of its variants are asked for. What is gone is None, as is everything
    once the store did not answer: ``away`` says so, and it is not asked again, for whoever reads many would wait long.
    """

    def __init__(self, store: Artifacts) -> None:
        self._store = store
        self._known: OrderedDict[tuple[str, str], dict[tuple[str, str, int], str]] = OrderedDict()
        self.away = False

    def of(self, row: Mapping[Any, Any] | None) -> str | None:
        """Of a row with ``relay.store.results.END``; None gives None."""
        if row is None or row["tails"] is None:
            return None
        found = self._object(row["shard_id"], row["tails"])
        return found.get((row["test"], row["variant"], row["attempt"]))

    def fill(self, rows: Iterable[dict[str, Any]], most: int | None = None) -> None:
        """Puts ``log_tail``, the last ``most`` characters of it, in the place of ``tails``."""
        for row in rows:
            end = self.of(row)
            row["log_tail"] = end[-most:] if end and most else end
            del row["tails"]

    def _object(self, shard_id: str, made: str) -> dict[tuple[str, str, int], str]:
        key = (shard_id, made)
        if key in self._known:
            self._known.move_to_end(key)
            return self._known[key]
        found: dict[tuple[str, str, int], str] = {}
        if not self.away:
            try:
                told = json.loads(zlib.decompress(self._store.get(name(*key))))
                found = {(test, variant, attempt): text for test, variant, attempt, text in told}
            except NotFound:
                log.info("ends of logs are gone", shard=shard_id, name=made)  # a restored database, another store
            except Unavailable as exc:
                log.warning("ends of logs cannot be read", shard=shard_id, why=exc.message)
                self.away = True
            except (zlib.error, ValueError) as exc:
                log.error("ends of logs are damaged", shard=shard_id, name=made, error=str(exc))
        self._known[key] = found
        if len(self._known) > OBJECTS:
            self._known.popitem(last=False)
        return found


def forget(engine: Engine, store: Artifacts, before: float, limit: int) -> int:
    """Drops up to ``limit`` objects stored before a time, first from the store and then here; -> how many."""
    with reading(engine) as conn:
        old = shard_logs.old_tails(conn, before, limit)
    gone = store.drop_in_order(name(one.shard_id, one.name) for one in old)
    with engine.begin() as conn:
        for one in old[:gone]:
            shard_logs.drop_tails(conn, one.shard_id, one.name)
    return gone


def name(shard_id: str, made: str) -> str:
    """Where an object lies in the store."""
    return f"tails/{shard_id[-2:]}/{shard_id}/{made}.z"
