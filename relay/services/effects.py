"""The kinds of effect: what is looked up before one is sent, how it is sent, and what our tables learn from it.

A row whose earlier send ended in doubt is reconciled first: a dispatch by the jobs that reported on it and by the
downstream's workflow runs, a check run by the commit's check runs. A dashboard row is an upsert and needs nothing.
Comments, cancellations and re-runs are in relay.services.effects_actions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from sqlalchemy import Connection, Row, select, update

from relay.domain import depends
from relay.domain.check_output import inert
from relay.domain.dispatch_payload import client_payload, encode
from relay.domain.effects import iso
from relay.domain.retry import Reply
from relay.github.client import CHECKS, DISPATCH, PULLS, Answer, GitHub, NotSent
from relay.hud.client import Hud
from relay.services import responding
from relay.services.secret_files import one_of
from relay.settings import Settings
from relay.store import deliveries, dispatches, jobs, repositories, schema

TOLD = "told; no report is expected"


@dataclass(frozen=True, slots=True)
class Clients:
    """The services that effects go to; one of each a process, safe for threads."""

    github: GitHub
    hud: Hud
    budget: int = 10_000
    """effects a minute on one installation of the App"""
    url: str = ""
    """where our own pages are"""
    pages: str = "https://github.com"
    """where GitHub's are"""

    def close(self) -> None:
        self.github.close()
        self.hud.close()


def make_clients(settings: Settings) -> Clients:
    """Built once a process: tokens and connections are cached in them."""
    return Clients(
        GitHub(settings.github_api_url, settings.github_app_id, partial(one_of, settings, "github_private_key")),
        Hud(settings.hud_url, partial(one_of, settings, "hud_bot_key")),
        settings.github_budget,
        settings.url,
        settings.github_url,
    )


@dataclass(slots=True)
class Look:
    """One look at the database for the effects that are sent together: a delivery's body is read once for all of
    its dispatches."""

    conn: Connection
    clients: Clients
    _bodies: dict[str, Any] = field(default_factory=dict)

    def body(self, delivery_id: str) -> Any:
        """The event's JSON; None when it is no longer stored."""
        if delivery_id not in self._bodies:
            of_delivery = select(schema.delivery.c.body).where(schema.delivery.c.id == delivery_id)
            stored = self.conn.execute(of_delivery).scalar_one_or_none()
            self._bodies[delivery_id] = deliveries.unpack(stored) if stored is not None else None
        return self._bodies[delivery_id]

    def names(self, target: str) -> set[str]:
        """Every name (case folded) of the repository that is called, or was called, ``target``."""
        known = repositories.of_names(self.conn, [target.casefold()]).get(target.casefold())
        return {target.casefold()} | (repositories.keys_of(self.conn, known.id) if known is not None else set())


class Unwanted(Exception):
    """The reason for the effect is gone."""


class Effect(Protocol):
    """Built from its row while that is read; ``prepare`` and ``perform`` use the network and no database."""

    def prepare(self) -> Answer | None:
        """Everything that may fail without doubt. An answer: the effect is there already. Raises NotSent, Unwanted."""

    def perform(self) -> Answer:
        """The effect. Raises NotSent."""

    def sent(self, conn: Connection, answer: Answer, now: float) -> None:
        """What our tables learn from it, in the transaction that marks it sent."""

    def lost(self, conn: Connection, error: str, now: float) -> None:
        """What they learn when it will not be sent."""


class _Dispatch:
    def __init__(self, look: Look, row: Row[Any]) -> None:
        self.row = row
        self.github = look.clients.github
        self.url = look.clients.url
        self.pages = look.clients.pages
        self.run = dispatches.get(look.conn, row.dispatch_id)
        self.arrived = jobs.any_of(look.conn, row.dispatch_id)
        self.body = self._event(look)
        self.pin: dict[str, Any] | None = self.run.pin if self.run is not None else None
        self.names = look.names(row.target) if self._text() else set()

    def _event(self, look: Look) -> Any:
        """What is told: of a dispatch that repeats one, that one's event."""
        first = dispatches.first_of(look.conn, self.run) if self.run is not None else None
        return look.body(first.delivery_id) if first is not None else None

    def _text(self) -> str:
        """The pull request's text, where it may name another pull request to test with."""
        return depends.text_of(self.body)

    def prepare(self) -> Answer | None:
        if self.run is None or self.run.state == "superseded":
            raise Unwanted("superseded before it was sent")
        if self.arrived:
            return Answer(Reply(204, detail="the downstream has reported on it"))
        if self.body is None:
            raise Unwanted("the delivery's body is no longer stored")
        if self.row.ambiguous and self._there():
            return Answer(Reply(204, detail="found among the downstream's workflow runs"))
        self.github.prepare(self.row.target, DISPATCH)
        if self.pin is None:
            self.pin = self._depends_on()
        return None

    def _depends_on(self) -> dict[str, Any] | None:
        """The head of the downstream's pull request that the change's text names, if its author is trusted there: the
        downstream's own CI would run that pull request's code."""
        named = depends.of_repository(self._text(), self.names, self.pages)
        if named is None:
            return None
        assert self.run is not None
        pin: dict[str, Any] = {"repo": self.row.target, "number": named.number}
        if not self.run.author_trusted:
            return {**pin, "problem": depends.not_trusted(self.run.author, self.row.target)}
        self.github.prepare(self.row.target, PULLS)
        answer = self.github.pull(self.row.target, named.number)
        if answer.reply.status in (404, 410):
            return {**pin, "problem": depends.NOT_THERE}
        head = depends.head_of(answer.body)
        if head is None:
            # without knowing, the downstream would test against something else
            raise NotSent(Reply(answer.reply.status, False, answer.reply.retry_after, answer.reply.detail, auth=True))
        return {**pin, **head}

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
        extra = {"depends_on": self.pin} if self.pin is not None else {}
        payload = client_payload(self.run.event, self.run.delivery_id, self.body, self.run.id, extra)
        body = encode({"event_type": self.run.event, "client_payload": payload})
        return self.github.dispatch(self.row.target, body)

    def sent(self, conn: Connection, answer: Answer, now: float) -> None:
        assert self.run is not None
        if self.run.level == "L1" or self.run.action == "closed":
            # nobody reports on it, so it is over with this
            self._move(conn, state="completed", code="told", summary=TOLD, closed_at=now, pin=self.pin)
        else:
            self._move(conn, state="sent", pin=self.pin)

    def lost(self, conn: Connection, error: str, now: float) -> None:
        code = "dispatch-not-sent"
        self._move(conn, state="failed", error=error, code=code, closed_at=now, summary=f"not dispatched: {error}")
        if self.run is not None:
            responding.settle(conn, self.url, self.run, "infrastructure", f"It was not told: {inert(error)}", now)

    def _move(self, conn: Connection, **values: Any) -> None:
        # a downstream may have reported before we heard that it was sent: then the state is further on
        table = schema.dispatch
        conn.execute(
            update(table).where(table.c.id == self.row.dispatch_id, table.c.state == "sending").values(**values)
        )


class _CheckRun:
    def __init__(self, look: Look, row: Row[Any]) -> None:
        self.row = row
        self.github = look.clients.github
        self.known = self._known(look.conn)
        self.taken = jobs.check_runs(look.conn, row.dispatch_id)

    def _known(self, conn: Connection) -> str | None:
        """Our check run's number: of the job, or of the one that waits for a dispatch's first report."""
        owner = jobs.get(conn, self.row.job_id) if self.row.job_id else dispatches.get(conn, self.row.dispatch_id)
        return owner.check_run_id if owner is not None else None

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
        if number is not None and self.row.job_id:
            jobs.set_check_run(conn, self.row.job_id, number)
        elif number is not None:
            dispatches.set_check_run(conn, self.row.dispatch_id, number)

    def lost(self, conn: Connection, error: str, now: float) -> None:
        """The row says it; the next effect of the stream tries again."""


class _HudRow:
    def __init__(self, look: Look, row: Row[Any]) -> None:
        self.row = row
        self.hud = look.clients.hud

    def prepare(self) -> Answer | None:
        return None

    def perform(self) -> Answer:
        return self.hud.post(self.row.payload)

    def sent(self, conn: Connection, answer: Answer, now: float) -> None:
        """Nothing more to learn."""

    def lost(self, conn: Connection, error: str, now: float) -> None:
        """The row says it."""


MAKERS: dict[str, Callable[[Look, Row[Any]], Effect]] = {
    "dispatch": _Dispatch,
    "check_run": _CheckRun,
    "hud": _HudRow,
}
