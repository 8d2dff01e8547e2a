"""Looks again after an effect that was in doubt: a try that nobody waits for any more may still come to something,
after the look that found nothing, or after a newer effect of its stream.

What is there then is made to say what we said last: a second check run says what the first one says, one that went back
is set right, a second comment is taken away, a dashboard row is told once more. A dispatch needs none of this: its
receiver drops the second one by its key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Row

from relay.domain.effects import iso
from relay.domain.oncall import marker
from relay.domain.retry import Reply
from relay.github.client import CHECKS, COMMENTS, Answer, NotSent
from relay.services.effects import Look, Unwanted
from relay.services.effects_actions import register
from relay.store import dispatches, jobs, outbox, streaks

KIND, OF_HUD = "recheck", "hud_recheck"
AFTER_S: Mapping[str, Sequence[float]] = {"check_run": (5.0, 30.0, 300.0), "comment": (30.0, 300.0), "hud": (30.0,)}
"""Seconds from the arrival of an effect to the looks after it, by its kind. GitHub ends what it has not done in 10 s:
what came after five minutes would come from nowhere that is known."""
RIGHT = Answer(Reply(200, detail="it is as it should be"))


def ask(conn: Connection, row: Row[Any], now: float) -> None:
    """Asks for looks after ``row``, which has arrived, where an earlier try of it or of its stream was in doubt. In the
    transaction that marks it sent."""
    looks = AFTER_S.get(row.kind)
    # telling the dashboard twice is nothing, unless something newer was told in between
    if looks is None or not ((row.ambiguous and row.kind != "hud") or outbox.was_in_doubt(conn, row)):
        return
    kind, told = OF_HUD if row.kind == "hud" else KIND, {"of": row.kind, "stream": row.stream}
    keys = [(f"{kind}:{row.id}:{number}", after) for number, after in enumerate(looks, 1)]
    # asked for when it is due: nobody waits for it before
    outbox.enqueue_all(conn, [outbox.request(key, kind, key, row.target, told, now=now + after) for key, after in keys])


class _Again:
    """A look at what a stream's effects left outside; ``last`` is what was said last of all that arrived."""

    def __init__(self, look: Look, row: Row[Any]) -> None:
        self.row = row
        self.rows = outbox.of_stream(look.conn, row.payload["stream"])
        self.sent_rows = [one for one in self.rows if one.state == "sent"]

    def wanted(self) -> Row[Any]:
        """Raises Unwanted where something newer is on its way, after which is looked again."""
        if not self.sent_rows:
            raise Unwanted("the effects that it looks after are no longer stored")
        if any(one.state == "due" for one in self.rows):
            raise Unwanted("something newer is on its way, and is looked after in its turn")
        return self.sent_rows[-1]

    def sent(self, conn: Connection, answer: Answer, now: float) -> None:
        """Nothing more to learn."""

    def lost(self, conn: Connection, error: str, now: float) -> None:
        """The row says it."""


class _CheckRuns(_Again):
    def __init__(self, look: Look, row: Row[Any]) -> None:
        super().__init__(look, row)
        self.github = look.clients.github
        self.owners: dict[str, str] = {}
        """number of a check run that we know -> the job or dispatch that it is of"""
        for one in sorted({one.dispatch_id for one in self.sent_rows}):
            run = dispatches.get(look.conn, one)
            if run is not None and run.check_run_id is not None:
                self.owners[run.check_run_id] = one
            self.owners |= jobs.check_runs(look.conn, one)
        self.wrong: list[tuple[str, dict[str, Any]]] = []

    def prepare(self) -> Answer | None:
        last = self.wanted()
        self.github.prepare(self.row.target, CHECKS)
        payload = last.payload
        answer = self.github.check_runs(self.row.target, payload["head_sha"], payload["name"])
        if answer.reply.status != 200:
            raise NotSent(replace(answer.reply, reached=False))
        said = {one.job_id or one.dispatch_id: one.payload for one in self.sent_rows}
        ours = {one.payload["external_id"] for one in self.sent_rows}
        for run in answer.body:
            number = str(run.get("id"))
            if run.get("external_id") not in ours:
                continue
            # one that nobody knows of is shown in place of all others, being the newest: it says what was said last
            should = said.get(self.owners[number]) if number in self.owners else payload
            if should is not None and _differs(run, should):
                self.wrong.append((number, {key: value for key, value in should.items() if key != "head_sha"}))
        return None if self.wrong else RIGHT

    def perform(self) -> Answer:
        answer = RIGHT
        for number, body in self.wrong:
            answer = self.github.update_check_run(self.row.target, number, body)
            if answer.reply.status is None or not 200 <= answer.reply.status < 300:
                return answer
        return answer


def _differs(run: Mapping[str, Any], should: Mapping[str, Any]) -> bool:
    output, told = run.get("output") or {}, should["output"]
    pairs = [(run.get("status"), should["status"]), (run.get("conclusion"), should.get("conclusion"))]
    pairs += [((output.get(name) or "").strip(), (told.get(name) or "").strip()) for name in ("title", "summary")]
    return any(there != wanted for there, wanted in pairs)


class _Comments(_Again):
    def __init__(self, look: Look, row: Row[Any]) -> None:
        super().__init__(look, row)
        self.github = look.clients.github
        streak = self.sent_rows[-1].payload["streak"] if self.sent_rows else ""
        self.streak = streaks.get(look.conn, streak)
        self.others: list[str] = []
        self.changed = False

    def prepare(self) -> Answer | None:
        last = self.wanted()
        if self.streak is None or self.streak.comment_id is None:
            raise Unwanted("the failure streak is no longer stored")
        self.github.prepare(self.row.target, COMMENTS)
        answer = self.github.comments(self.row.target, last.payload["number"], iso(self.streak.began_at - 60))
        if answer.reply.status != 200:
            raise NotSent(replace(answer.reply, reached=False))
        for comment in answer.body:
            app, body = comment.get("performed_via_github_app"), str(comment.get("body", ""))
            mine = isinstance(app, dict) and str(app.get("id")) == self.github.app_id
            if mine and body.startswith(marker(self.streak.id)):
                if str(comment["id"]) != self.streak.comment_id:
                    self.others.append(str(comment["id"]))
                elif body.strip() != last.payload["text"].strip():
                    self.changed = True
        return None if self.others or self.changed else RIGHT

    def perform(self) -> Answer:
        answer = RIGHT
        for other in self.others:
            answer = self.github.delete_comment(self.row.target, other)
            if answer.reply.status not in (204, 404) or answer.reply.foreign:
                return answer
        if self.changed and self.streak is not None:
            answer = self.github.update_comment(self.row.target, self.streak.comment_id, self.wanted().payload["text"])
        return RIGHT if answer.reply.status == 404 and not self.changed else answer


class _HudRow(_Again):
    def __init__(self, look: Look, row: Row[Any]) -> None:
        super().__init__(look, row)
        self.hud = look.clients.hud

    def prepare(self) -> Answer | None:
        self.wanted()
        return None

    def perform(self) -> Answer:
        return self.hud.post(self.wanted().payload)


_OF = {"check_run": _CheckRuns, "comment": _Comments, "hud": _HudRow}


def _make(look: Look, row: Row[Any]) -> _Again:
    return _OF[row.payload["of"]](look, row)


for _kind in (KIND, OF_HUD):
    register(_kind, _make)
