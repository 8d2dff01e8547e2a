"""Effects that are neither results nor dispatches: the oncalls' comment, cancelling a run, running one again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Row

from relay.domain.effects import iso
from relay.domain.oncall import marker
from relay.domain.retry import Reply
from relay.github.client import ACTIONS, COMMENTS, Answer, NotSent
from relay.services import rerun_notes
from relay.services.effects import MAKERS, Effect, Look, Unwanted
from relay.store import reruns, streaks

ALREADY = "already"


class Comment:
    """``payload``: {streak, number, text}. Made once, then changed in place; found again by its marker."""

    def __init__(self, look: Look, row: Row[Any]) -> None:
        self.row = row
        self.github = look.clients.github
        self.streak = streaks.get(look.conn, row.payload["streak"])
        self.known: str | None = self.streak.comment_id if self.streak is not None else None

    def prepare(self) -> Answer | None:
        if self.streak is None:
            raise Unwanted("the failure streak is no longer stored")
        self.github.prepare(self.row.target, COMMENTS)
        # an earlier row of the stream may have been given up in doubt
        if self.known is None and (self.row.ambiguous or not self.row.payload.get("first")):
            self.known = self._find()
        return None

    def _find(self) -> str | None:
        assert self.streak is not None
        since = iso(self.streak.began_at - 60)
        answer = self.github.comments(self.row.target, self.row.payload["number"], since)
        if answer.reply.status != 200:
            # a second comment would call everybody again
            raise NotSent(replace(answer.reply, reached=False))
        mine = marker(self.streak.id)
        for comment in answer.body:
            app = comment.get("performed_via_github_app")
            ours = isinstance(app, dict) and str(app.get("id")) == self.github.app_id
            if ours and str(comment.get("body", "")).startswith(mine):
                return str(comment["id"])
        return None

    def perform(self) -> Answer:
        payload = self.row.payload
        if self.known is None:
            return self.github.create_comment(self.row.target, payload["number"], payload["text"])
        return self.github.update_comment(self.row.target, self.known, payload["text"])

    def sent(self, conn: Connection, answer: Answer, now: float) -> None:
        number = self.known or (str(answer.body["id"]) if answer.body and "id" in answer.body else None)
        if number is not None:
            streaks.set_comment(conn, self.row.payload["streak"], number)

    def lost(self, conn: Connection, error: str, now: float) -> None:
        """The row says it; the next change of the streak tries again."""


class _OnRun:
    """An action on a downstream's workflow run ``payload["run_id"]``."""

    def __init__(self, look: Look, row: Row[Any]) -> None:
        self.row = row
        self.github = look.clients.github
        self.run_id: str = row.payload["run_id"]

    def _look(self) -> dict[str, Any] | None:
        """The run as GitHub has it, after a send in doubt; None: it is not known."""
        if not self.row.ambiguous:
            return None
        answer = self.github.run(self.row.target, self.run_id)
        return answer.body if isinstance(answer.body, dict) else None

    def sent(self, conn: Connection, answer: Answer, now: float) -> None:
        """The run's own reports tell the rest."""

    def lost(self, conn: Connection, error: str, now: float) -> None:
        """The row says it."""


class Cancel(_OnRun):
    """Ends a run whose commit nobody asks about any more."""

    def prepare(self) -> Answer | None:
        self.github.prepare(self.row.target, ACTIONS)
        seen = self._look()
        if seen is not None and seen.get("status") == "completed":
            return Answer(Reply(202, detail="the run has ended"))
        return None

    def perform(self) -> Answer:
        answer = self.github.cancel_run(self.row.target, self.run_id)
        if answer.reply.status == 409:
            return Answer(Reply(202, detail="the run had ended by itself"))
        return answer


class Rerun(_OnRun):
    """Runs a run's jobs again. ``payload``: {run_id, scope, attempt}; ``attempt`` is the one that was known."""

    def prepare(self) -> Answer | None:
        self.github.prepare(self.row.target, ACTIONS)
        seen = self._look()
        if seen is not None and int(seen.get("run_attempt") or 1) > self.row.payload["attempt"]:
            return Answer(Reply(201, detail="the run has a newer attempt"))
        return None

    def perform(self) -> Answer:
        failed_only = self.row.payload["scope"] == "failed"
        answer = self.github.rerun(self.row.target, self.run_id, failed_only=failed_only)
        if answer.reply.status == 403 and ALREADY in answer.reply.detail.casefold():
            return Answer(Reply(201, detail="the run is running already"))
        return answer

    def lost(self, conn: Connection, error: str, now: float) -> None:
        """Who asked is waiting: the check says that nothing comes."""
        asked = self.row.key.partition(":")[2]
        reruns.settle(conn, asked, error)
        rerun_notes.refused(conn, asked, error, now)


EFFECTS = {**MAKERS, "comment": Comment, "cancel": Cancel, "rerun": Rerun}
"""Every kind of effect. A kind of another room is added by its own module (``register``)."""


def register(kind: str, maker: Any) -> None:
    """Adds a kind of effect: ``maker(look, row)`` makes an Effect."""
    EFFECTS[kind] = maker


def make(look: Look, row: Row[Any]) -> Effect:
    """The effect of a row. KeyError for a kind that nobody registered: a newer release asked for it."""
    maker = EFFECTS[row.kind]
    effect: Effect = maker(look, row)
    return effect
