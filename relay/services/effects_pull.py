"""The effect that proposes a change of configs to a downstream's repository, as a pull request. Nobody is asked twice,
and nothing is ever merged from here."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Row

from relay.github import changes
from relay.github.client import Answer
from relay.services.effects import Look, Unwanted
from relay.services.effects_actions import register
from relay.store import outbox

KIND = "pull"
BRANCH = "relay/config-"


class ProposeChange:
    """``payload``: {base, branch, title, body, files: [{path, before, text}]}."""

    def __init__(self, look: Look, row: Row[Any]) -> None:
        self.row = row
        self.github = look.clients.github

    def prepare(self) -> Answer | None:
        self.github.prepare(self.row.target, changes.PROPOSE)
        return None

    def perform(self) -> Answer:
        payload = self.row.payload
        try:
            return changes.propose(
                self.github.api_url,
                self.github.token(self.row.target, changes.PROPOSE),
                self.row.target,
                base=payload["base"],
                branch=payload["branch"],
                files=[changes.FileEdit(**edit) for edit in payload["files"]],
                title=payload["title"],
                body=payload["body"],
                now=time.time(),
            )
        except changes.Outdated as exc:
            raise Unwanted(str(exc)) from exc

    def sent(self, conn: Connection, answer: Answer, now: float) -> None:
        """The row keeps the pull request's number and address."""

    def lost(self, conn: Connection, error: str, now: float) -> None:
        """The row says it."""


def enqueue(
    conn: Connection,
    *,
    repo: str,
    base: str,
    files: Mapping[str, tuple[str, str]],
    title: str,
    body: str,
    now: float,
) -> str | None:
    """Asks for a pull request on ``repo`` that takes each file (path -> its text before and after) from one text to the
    other. The branch's name, which is returned, says what is proposed; None: the very same was asked for before."""
    parts = [part for path in sorted(files) for part in (path, *files[path])]
    branch = BRANCH + hashlib.sha256("\0".join((base, *parts)).encode()).hexdigest()[:16]
    edits = [
        {"path": path, "before": changes.digest(before) if before else "", "text": after}
        for path, (before, after) in sorted(files.items())
    ]
    asked = outbox.enqueue(
        conn,
        key=f"{KIND}:{repo}:{branch}"[:255],
        kind=KIND,
        stream=f"{KIND}:{repo}"[:255],
        target=repo,
        payload={"base": base, "branch": branch, "title": title, "body": body, "files": edits},
        now=now,
    )
    return branch if asked else None


register(KIND, ProposeChange)
