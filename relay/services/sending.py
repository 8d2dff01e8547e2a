"""Sends outbox rows: look, claim, send, record. No transaction is open while the network is used.

Rows that are handed over together are looked up, claimed and recorded together, and sent side by side: a fan-out to 32
downstreams costs a few transactions, not a hundred.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

import structlog
from sqlalchemy import Connection, Engine, Row

from relay.domain.circuit import Gate, owner_of
from relay.domain.retry import Kind, Reply, Settlement, settle
from relay.github.client import Answer, NotSent
from relay.services import effects_recheck, gates
from relay.services.effects import Clients, Effect, Look, Unwanted
from relay.services.effects_actions import make
from relay.steps import step
from relay.store import audit, dispatches, outbox
from relay.store.db import reading

log = structlog.get_logger(__name__)
RESPONSE_KEYS = ("id", "html_url", "status", "ok", "dynamoKey")
GATHER_S = 0.005
"""After an answer the next ones are waited for this long, to be recorded in the same transaction."""


def send(engine: Engine, clients: Clients, ids: Sequence[int], now: float) -> None:
    """Sends those of the rows that are due, unclaimed and the first of their stream; nothing happens to the others.
    What came of each, and when to try again, is in its row. ``now``: seconds since the epoch.

    Raises an ExceptionGroup of what broke in single rows (they come back by themselves), after the others are sent.
    """
    batch = _Batch(engine, now)
    found = batch.admit(batch.find(ids, clients))
    if found:
        with ThreadPoolExecutor(len(found), "send") as threads:
            ready = batch.prepare(threads, found)
            batch.perform(threads, batch.claim(ready, clients.budget))
    if batch.broken:
        raise ExceptionGroup("single effects broke", batch.broken)


@dataclass(slots=True, eq=False)
class _Sending:
    """One row on its way; ``answer`` once there is one, ``unwanted`` when there is a reason not to send it."""

    row: Row[Any]
    effect: Effect
    delivery: str | None = None
    """the delivery that it is for, where it is for one"""
    claimed: bool = False
    answer: Answer | None = None
    unwanted: str = ""
    shut: bool = False
    """not sent, because the place is closed"""
    news: bool = False
    """the place was closed before, so that an arrival there opens it"""

    def perform(self) -> Answer:
        """The effect itself, seen as a step of its delivery."""
        row = self.row
        about = {"target": row.target, "attempt": row.attempts + 1}
        with step(f"send {row.kind}", delivery=self.delivery, run=row.dispatch_id, **about):
            return self.effect.perform()

    def take(self, future: Future[Answer | None]) -> None:
        """What a step came to. Raises what it did not foresee."""
        try:
            self.answer = future.result()
        except NotSent as exc:
            self.answer = Answer(exc.reply)
        except Unwanted as exc:
            self.unwanted = str(exc)


class _Batch:
    def __init__(self, engine: Engine, now: float) -> None:
        self.engine = engine
        self._ahead = now - time.time()
        self.places: dict[str, Gate] = {}
        self.broken: list[Exception] = []

    def clock(self) -> float:
        # the machine's own clock, at each look: a step in the middle must not leave times of before it behind
        return self._ahead + time.time()

    def find(self, ids: Sequence[int], clients: Clients) -> list[_Sending]:
        """The rows that may be sent, with what is known about each."""
        found = []
        with reading(self.engine) as conn:
            look = Look(conn, clients)
            rows = outbox.sendable(conn, ids, self.clock())
            known = dispatches.deliveries_of(conn, {row.dispatch_id for row in rows if row.dispatch_id})
            for row in rows:
                try:
                    found.append(_Sending(row, make(look, row), known.get(row.dispatch_id)))
                except Exception as exc:  # noqa: BLE001 - it is told when the others are sent
                    self._broke(row, exc)
            targets = [one.row.target for one in found if gates.on_github(one.row.kind)]
            self.places = gates.look(conn, targets, self.clock())
        return found

    def admit(self, rows: Sequence[_Sending]) -> list[_Sending]:
        """Those that may go where they are to go. To a closed place nothing is sent: the answer is known."""
        now = self.clock()
        decided = gates.admit(self.engine, self.places, now)
        admitted, refused, waiting = [], [], []
        for one in rows:
            place = decided.get(one.row.target) if gates.on_github(one.row.kind) else None
            if place is None or place.what == "open":
                one.news = place is not None and self.places[one.row.target].key != ""
                admitted.append(one)
            elif place.what == "wait":
                waiting.append((one, place))
            else:
                assert place.reply is not None
                one.answer, one.shut = Answer(place.reply), True
                refused.append(one)
        self._record(refused)
        if waiting:
            with self.engine.begin() as conn:
                for one, place in waiting:
                    # jitter: what waited together does not return together
                    at = place.until + random.random()
                    outbox.postpone(conn, [one.row.id], at, f"waits: {place.key} asked for time")
        return admitted

    def prepare(self, threads: ThreadPoolExecutor, rows: Sequence[_Sending]) -> list[_Sending]:
        """Those that are to be claimed and sent; the rest has its answer already."""
        futures = {threads.submit(one.effect.prepare): one for one in rows}
        done = self._taken(futures)
        self._record([one for one in done if one.answer is not None or one.unwanted])
        return [one for one in done if one.answer is None and not one.unwanted]

    def claim(self, rows: Sequence[_Sending], budget: int) -> list[_Sending]:
        """Those that nobody else was faster with, within the budgets of their installations; ``budget`` a minute."""
        if not rows:
            return []
        with self.engine.begin() as conn:
            now = self.clock()
            paid = [one for one in rows if gates.on_github(one.row.kind)]
            allowed, following = gates.spend(conn, [one.row.target for one in paid], now, budget)
            over = {one.row.id for one, may in zip(paid, allowed, strict=True) if not may}
            for one in rows:
                if one.row.id in over:
                    at = following[owner_of(one.row.target)] + random.random()
                    outbox.postpone(conn, [one.row.id], at, f"waits: {budget} effects a minute are the budget")
                else:
                    one.claimed = outbox.claim(conn, one.row, now)
        return [one for one in rows if one.claimed]

    def perform(self, threads: ThreadPoolExecutor, rows: Sequence[_Sending]) -> None:
        futures: dict[Future[Any], _Sending] = {threads.submit(one.perform): one for one in rows}
        while futures:
            wait(futures, return_when=FIRST_COMPLETED)
            done = wait(futures, timeout=GATHER_S).done
            self._record(self._taken({future: futures.pop(future) for future in done}))

    def _taken(self, futures: dict[Future[Any], _Sending]) -> list[_Sending]:
        done = []
        for future, one in futures.items():
            try:
                one.take(future)
                done.append(one)
            except Exception as exc:  # noqa: BLE001 - as above
                self._broke(one.row, exc)
        return done

    def _record(self, rows: Sequence[_Sending]) -> None:
        """All in one transaction; should one break it, each in its own, so that the others are not sent again."""
        if not rows:
            return
        try:
            self._write(rows)
        except Exception as exc:  # noqa: BLE001 - as above
            if len(rows) == 1:
                self._broke(rows[0].row, exc)
                return
            for one in rows:
                self._record([one])

    def _write(self, rows: Sequence[_Sending]) -> None:
        with self.engine.begin() as conn:
            now = self.clock()
            told = [_written(conn, one, now) for one in rows]
            audit.record(conn, [_entry(one, outcome, now) for one, outcome in zip(rows, told, strict=True)])
        for one, outcome in zip(rows, told, strict=True):
            _tell(one, outcome)

    def _broke(self, row: Row[Any], exc: Exception) -> None:
        exc.add_note(f"outbox row {row.id}: {row.kind} to {row.target}")
        self.broken.append(exc)


def _written(conn: Connection, one: _Sending, now: float) -> Settlement | None:
    """Writes what came of a row; None when it is dropped."""
    row = one.row
    if one.unwanted:
        if outbox.mark_dropped(conn, row.id, reason=one.unwanted):
            one.effect.lost(conn, one.unwanted, now)
        return None
    assert one.answer is not None
    reply, body = one.answer.reply, one.answer.body
    kind: Kind = row.kind
    age_s = now - (row.asked_at or row.created_at)
    outcome = settle(kind, reply, attempts=row.attempts + 1, age_s=age_s, jitter=random.random())
    # a try that failed before it could send leaves the doubt of an earlier one as it was
    doubt = outcome.ambiguous or (row.ambiguous and not reply.reached)
    # a wait that was asked for is nobody's to shorten: it is told from those that are ours (outbox_ops.OUTAGE)
    asked = f", asked for {reply.retry_after:.0f} s" if reply.retry_after is not None else ""
    error = f"{outcome.code}{asked}: {reply.detail}"
    if outcome.state == "sent":
        response = {k: body[k] for k in RESPONSE_KEYS if k in body} if body else None
        outbox.mark_sent(conn, row.id, status=reply.status, response=response, now=now)
        one.effect.sent(conn, one.answer, now)
        effects_recheck.ask(conn, row, now)
    elif outcome.state == "parked":
        if outbox.mark_parked(conn, row.id, ambiguous=doubt, status=reply.status, error=error, now=now):
            one.effect.lost(conn, error, now)
    else:
        at = now + outcome.delay_s
        if reply.moved is not None:
            gates.learn_name(conn, row.target, reply.moved, now)
            outbox.retarget(conn, row.id, reply.moved.name)
        outbox.mark_retry(conn, row, claimed=one.claimed, at=at, ambiguous=doubt, status=reply.status, error=error)
    # what a closed place answers is no news about it
    if gates.on_github(kind) and not one.shut and (one.news or outcome.state != "sent"):
        gates.learn(conn, row.target, outcome.code, reply, now)
    return outcome


def _entry(one: _Sending, outcome: Settlement | None, now: float) -> dict[str, Any]:
    """The audit log's line: what was tried on the outside, and what came of it."""
    row = one.row
    detail: dict[str, Any] = {"outbox": row.id, "key": row.key, "attempt": row.attempts + 1}
    if outcome is None:
        state = "dropped"
        detail["reason"] = one.unwanted
    else:
        assert one.answer is not None
        state = "again" if outcome.state not in ("sent", "parked") else outcome.state
        detail |= {"status": one.answer.reply.status, "code": outcome.code}
        if outcome.state != "sent":
            detail["said"] = one.answer.reply.detail[:500]
    return audit.entry(f"{row.kind}.{state}", row.target, now=now, detail=detail, dispatch_id=row.dispatch_id)


def _tell(one: _Sending, outcome: Settlement | None) -> None:
    row = one.row
    about = {"id": row.id, "kind": row.kind, "target": row.target, "attempt": row.attempts + 1}
    about |= {"run": row.dispatch_id, "delivery": one.delivery} if row.dispatch_id else {}
    if outcome is None:
        log.info("effect dropped", **about, reason=one.unwanted)
        return
    assert one.answer is not None
    reply: Reply = one.answer.reply
    if outcome.state == "sent":
        log.info("effect sent", **about)
    elif outcome.state == "parked":
        log.error("effect parked", **about, code=outcome.code, status=reply.status, detail=reply.detail)
    else:
        wait_s = round(outcome.delay_s, 1)
        log.warning("effect again", **about, code=outcome.code, status=reply.status, detail=reply.detail, wait_s=wait_s)
