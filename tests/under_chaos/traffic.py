"""What goes through the relay under chaos: pull requests, as GitHub tells of them, and how far each has come."""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from outbound_relay import pull_request
from sqlalchemy import bindparam, text
from sqlalchemy.exc import SQLAlchemyError
from under_chaos.relay import OURS, OWN_CI, UPSTREAM, RelayUnderChaos

from relay.demo.webhook import sign

OVER = ("completed", "failed", "superseded")
POLL_S = 0.15


@dataclass
class Sent:
    """A delivery. ``ours``: whether our own workers run it, beside the downstream's own CI."""

    guid: str
    number: int
    sha: str
    ours: bool
    signature: Any = None
    moved_at: float = 0.0
    done_at: float | None = None
    gap: float = 0.0
    """longest time after the fault in which nothing of it moved, seconds"""

    @property
    def downstreams(self) -> tuple[str, ...]:
        return (OWN_CI, OURS) if self.ours else (OWN_CI,)


@dataclass
class Traffic:
    """Sends pull requests through the local GitHub, which redelivers what is asked for again."""

    relay: RelayUnderChaos
    number: int = 1000
    sent: list[Sent] = field(default_factory=list)

    def open(self, ours: bool) -> Sent:
        """A pull request is opened: of a member, whose change our workers run, or of a stranger."""
        self.number += 1
        one = self.relay.upstream
        sha = one.pull(self.number) if ours else uuid.uuid4().hex + "00000000"
        base = {"sha": one.base, "ref": "main", "repo": {"full_name": UPSTREAM}}
        body = pull_request(
            "opened", sha, number=self.number, base=base, author_association="MEMBER" if ours else "NONE"
        )
        raw = json.dumps(body)
        guid = str(uuid.uuid4())
        headers = {
            "X-GitHub-Event": "pull_request", "X-GitHub-Delivery": guid, "Content-Type": "application/json",
            "X-Hub-Signature-256": sign(self.relay.secret, raw.encode()),
        }  # fmt: skip
        what = {"url": f"{self.relay.url}/github/webhook", "headers": headers, "payload": raw}
        self.relay.control("POST", "webhook", what)
        found = Sent(guid, self.number, sha, ours, moved_at=time.monotonic())
        self.sent.append(found)
        return found

    def settle(self, some: list[Sent], since: float, seconds: float) -> None:
        """Waits until each of ``some`` has come to its end, and notes how long each stood still after ``since`` (a time
        of time.monotonic()). What has not ended after ``seconds`` keeps ``done_at`` None."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not all(one.done_at for one in some):
            self.relay.tend()
            self.look(some, since)
            time.sleep(POLL_S)

    def look(self, some: list[Sent], since: float) -> None:
        """One look from outside at how far each has come."""
        try:
            states = self._states([one for one in some if one.done_at is None])
        except SQLAlchemyError:
            return  # the database is away: nothing moves, and the time counts
        now = time.monotonic()
        for one in some:
            if one.done_at is not None or one.guid not in states:
                continue
            signature, done = states[one.guid]
            one.gap = max(one.gap, now - max(one.moved_at, since) if now > since else 0.0)
            if signature != one.signature:
                one.signature, one.moved_at = signature, now
            if done:
                one.done_at = now

    def _states(self, some: list[Sent]) -> dict[str, tuple[Any, bool]]:
        """guid -> (everything that changes when it goes on, whether it is over)"""
        guids = [one.guid for one in some]
        with self.relay.engine.connect().execution_options(read_only=True) as conn:

            def of(query: str) -> list[Any]:
                bound = text(query).bindparams(bindparam("guids", expanding=True))
                return [tuple(row) for row in conn.execute(bound, {"guids": guids}).all()]

            came = dict(of("select id, state from delivery where id in :guids"))
            run = "join dispatch d on d.id = x.dispatch_id where d.delivery_id in :guids"
            runs = of("select delivery_id, id, state, claim, selected_at from dispatch where delivery_id in :guids")
            parts = [
                of(f"select d.delivery_id, x.id, x.status, x.version from job x {run}"),
                of(f"select d.delivery_id, x.id, x.state, x.fence from shard x {run}"),
                of(f"select d.delivery_id, x.id, x.state, x.attempts from outbox x {run}"),
                of(f"select d.delivery_id, d.id, count(*) from result x {run} group by d.delivery_id, d.id"),
            ]
        found = {}
        for one in some:
            mine = sorted(row for row in runs if row[0] == one.guid)
            rest = [sorted(row[1:] for row in part if row[0] == one.guid) for part in parts]
            over = came.get(one.guid) == "routed" and len(mine) == len(one.downstreams)
            over = over and all(row[2] in OVER for row in mine)
            over = over and all(state != "due" for _, state, _ in rest[2])
            found[one.guid] = ((came.get(one.guid), [row[1:] for row in mine], rest), over)
        return found
