"""Sends one outbox row: look, claim, send, record. No transaction is open while the network is used.

A row whose earlier send ended in doubt is reconciled first: a dispatch by the jobs that reported on it and by the
downstream's workflow runs, a check run by the commit's check runs. A dashboard row is an upsert and needs nothing.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import structlog
from sqlalchemy import Connection, Engine, Row, select, update

from relay.domain.dispatch_payload import client_payload, encode
from relay.domain.effects import iso
from relay.domain.retry import Kind, Reply, Settlement, settle
from relay.github.client import CHECKS, DISPATCH, Answer, GitHub, NotSent
from relay.hud.client import Hud
from relay.settings import Settings
from relay.store import deliveries, dispatches, jobs, outbox, schema
from relay.store.db import reading

log = structlog.get_logger(__name__)
RESPONSE_KEYS = ("id", "html_url", "status", "ok", "dynamoKey")


@dataclass(frozen=True, slots=True)
class Clients:
    """The services that effects go to; one of each a process, safe for threads."""

    github: GitHub
    hud: Hud

    def close(self) -> None:
        self.github.close()
        self.hud.close()


def make_clients(settings: Settings) -> Clients:
    """Built once a process: tokens and connections are cached in them."""
    key = settings.github_private_key.get_secret_value()
    return Clients(
        GitHub(settings.github_api_url, settings.github_app_id, key),
        Hud(settings.hud_url, settings.hud_bot_key.get_secret_value()),
    )


def send(engine: Engine, settings: Settings, clients: Clients, outbox_id: int, now: float) -> None:
    """Sends the row if it is due, unclaimed and the first of its stream; otherwise does nothing. What came of it, and
    when to try again, is in the row. ``now``: seconds since the epoch."""
    begun = time.monotonic()
    with reading(engine) as conn:
        row = outbox.sendable(conn, outbox_id, now)
        if row is None:
            return
        effect = _EFFECTS[row.kind](conn, row, clients)
    claimed = False
    try:
        answer = effect.prepare()
        if answer is None:
            with engine.begin() as conn:
                claimed = outbox.claim(conn, row, now + time.monotonic() - begun)
            if not claimed:
                return
            answer = effect.perform()
    except NotSent as exc:
        answer = Answer(exc.reply)
    except _Unwanted as exc:
        with engine.begin() as conn:
            if outbox.mark_dropped(conn, row.id, reason=str(exc)):
                effect.lost(conn, str(exc), now)
        log.info("effect dropped", id=row.id, kind=row.kind, target=row.target, reason=str(exc))
        return
    _record(engine, row, effect, answer, claimed, now + time.monotonic() - begun)


def _record(engine: Engine, row: Row[Any], effect: _Effect, answer: Answer, claimed: bool, now: float) -> None:
    reply = answer.reply
    kind: Kind = row.kind
    outcome = settle(
        kind,
        reply,
        attempts=row.attempts + 1,
        age_s=now - row.created_at,
        jitter=random.random(),
    )
    # a try that failed before it could send leaves the doubt of an earlier one as it was
    doubt = outcome.ambiguous or (row.ambiguous and not reply.reached)
    error = f"{outcome.code}: {reply.detail}"
    with engine.begin() as conn:
        if outcome.state == "sent":
            response = {k: answer.body[k] for k in RESPONSE_KEYS if k in answer.body} if answer.body else None
            outbox.mark_sent(conn, row.id, status=reply.status, response=response, now=now)
            effect.sent(conn, answer, now)
        elif outcome.state == "parked":
            if outbox.mark_parked(conn, row.id, ambiguous=doubt, status=reply.status, error=error):
                effect.lost(conn, error, now)
        else:
            outbox.mark_retry(
                conn,
                row,
                claimed=claimed,
                at=now + outcome.delay_s,
                ambiguous=doubt,
                status=reply.status,
                error=error,
            )
    _tell(row, outcome, reply)


def _tell(row: Row[Any], outcome: Settlement, reply: Reply) -> None:
    about = {"id": row.id, "kind": row.kind, "target": row.target, "attempt": row.attempts + 1}
    if outcome.state == "sent":
        log.info("effect sent", **about)
    elif outcome.state == "parked":
        log.error("effect parked", **about, code=outcome.code, status=reply.status, detail=reply.detail)
    else:
        wait = round(outcome.delay_s, 1)
        log.warning("effect again", **about, code=outcome.code, status=reply.status, detail=reply.detail, wait_s=wait)


# -------------------------------------------------------------------------------------------------- the kinds of effect


class _Unwanted(Exception):
    """The reason for the effect is gone."""


class _Effect(Protocol):
    """Built from the row while it is read; ``prepare`` and ``perform`` use the network and no database."""

    def prepare(self) -> Answer | None:
        """Everything that may fail without doubt. An answer: the effect is there already. Raises NotSent, _Unwanted."""

    def perform(self) -> Answer:
        """The effect. Raises NotSent."""

    def sent(self, conn: Connection, answer: Answer, now: float) -> None:
        """What our tables learn from it, in the transaction that marks it sent."""

    def lost(self, conn: Connection, error: str, now: float) -> None:
        """What they learn when it will not be sent."""


class _Dispatch:
    def __init__(self, conn: Connection, row: Row[Any], clients: Clients) -> None:
        self.row = row
        self.github = clients.github
        self.run = dispatches.get(conn, row.dispatch_id)
        self.arrived = jobs.any_of(conn, row.dispatch_id)
        table = schema.delivery
        of_run = select(table.c.body).where(table.c.id == self.run.delivery_id) if self.run else None
        stored = conn.execute(of_run).scalar_one_or_none() if of_run is not None else None
        self.body = deliveries.unpack(stored) if stored is not None else None

    def prepare(self) -> Answer | None:
        if self.run is None or self.run.state == "superseded":
            raise _Unwanted("superseded before it was sent")
        if self.arrived:
            return Answer(Reply(204, detail="the downstream has reported on it"))
        if self.body is None:
            raise _Unwanted("the delivery's body is no longer stored")
        if self.row.ambiguous and self._there():
            return Answer(Reply(204, detail="found among the downstream's workflow runs"))
        self.github.prepare(self.row.target, DISPATCH)
        return None

    def _there(self) -> bool:
        """Whether a workflow run names our key (its run-name may show it). Not knowing is not an obstacle: the receiver
        drops a second dispatch by the same key."""
        try:
            runs = self.github.dispatched_runs(self.row.target, iso(self.row.created_at - 60)).body
        except NotSent as exc:
            if exc.reply.status is None:
                raise  # no connection: then there is no sending either
            return False
        texts = (str(run.get(name)) for run in runs for name in ("name", "display_title"))
        return any(self.row.dispatch_id in text for text in texts)

    def perform(self) -> Answer:
        assert self.run is not None
        assert self.body is not None
        payload = client_payload(self.run.event, self.run.delivery_id, self.body, self.run.id)
        body = encode({"event_type": self.run.event, "client_payload": payload})
        return self.github.dispatch(self.row.target, body)

    def sent(self, conn: Connection, answer: Answer, now: float) -> None:
        self._move(conn, state="sent")

    def lost(self, conn: Connection, error: str, now: float) -> None:
        code = "dispatch-not-sent"
        self._move(conn, state="failed", error=error, code=code, closed_at=now, summary=f"not dispatched: {error}")

    def _move(self, conn: Connection, **values: Any) -> None:
        # a downstream may have reported before we heard that it was sent: then the state is further on
        table = schema.dispatch
        conn.execute(
            update(table).where(table.c.id == self.row.dispatch_id, table.c.state == "sending").values(**values)
        )


class _CheckRun:
    def __init__(self, conn: Connection, row: Row[Any], clients: Clients) -> None:
        self.row = row
        self.github = clients.github
        job = jobs.get(conn, row.job_id)
        self.known: str | None = job.check_run_id if job is not None else None
        self.taken = jobs.check_runs(conn, row.dispatch_id)

    def prepare(self) -> Answer | None:
        self.github.prepare(self.row.target, CHECKS)
        if self.known is None and self.row.ambiguous:
            self.known = self._find()
        return None

    def _find(self) -> str | None:
        """The check run that a send in doubt has made: ours by name and external id, and no other job's."""
        payload = self.row.payload
        answer = self.github.check_runs(self.row.target, payload["head_sha"], payload["name"])
        if answer.reply.status != 200:
            # creating another without knowing would show the job twice
            raise NotSent(Reply(answer.reply.status, False, answer.reply.retry_after, answer.reply.detail))
        for run in answer.body:
            if run.get("external_id") == payload["external_id"] and str(run.get("id")) not in self.taken:
                return str(run["id"])
        return None

    def perform(self) -> Answer:
        if self.known is None:
            return self.github.create_check_run(self.row.target, self.row.payload)
        body = {key: value for key, value in self.row.payload.items() if key != "head_sha"}
        return self.github.update_check_run(self.row.target, self.known, body)

    def sent(self, conn: Connection, answer: Answer, now: float) -> None:
        number = self.known or (str(answer.body["id"]) if answer.body and "id" in answer.body else None)
        if number is not None:
            jobs.set_check_run(conn, self.row.job_id, number)

    def lost(self, conn: Connection, error: str, now: float) -> None:
        """The row says it; the next effect of the stream tries again."""


class _HudRow:
    def __init__(self, conn: Connection, row: Row[Any], clients: Clients) -> None:
        self.row = row
        self.hud = clients.hud

    def prepare(self) -> Answer | None:
        return None

    def perform(self) -> Answer:
        return self.hud.post(self.row.payload)

    def sent(self, conn: Connection, answer: Answer, now: float) -> None:
        """Nothing more to learn."""

    def lost(self, conn: Connection, error: str, now: float) -> None:
        """The row says it."""


_EFFECTS: dict[str, Callable[[Connection, Row[Any], Clients], _Effect]] = {
    "dispatch": _Dispatch,
    "check_run": _CheckRun,
    "hud": _HudRow,
}
