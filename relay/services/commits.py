"""Whether upstream has a commit on one of the branches that count: asked of GitHub once, and remembered."""

from __future__ import annotations

import threading
from collections.abc import Callable

from sqlalchemy import Engine

from relay.errors import CommitUnknown
from relay.github.reads import Reader
from relay.settings import Settings
from relay.store import commits
from relay.store.db import reading

ASK_AGAIN_S = 60.0
"""A commit that was not there is looked for again after so long: a branch moves on."""
LOCKS = 64
_locks = [threading.Lock() for _ in range(LOCKS)]


def check(engine: Engine, settings: Settings, reader: Reader, sha: str, now: float, asking: Callable[[], None]) -> None:
    """Returns when upstream has ``sha``. ``asking`` is called before GitHub is, and may refuse.

    CommitUnknown when it has not; Unavailable when GitHub cannot be asked: then nobody knows, and nothing is believed.
    """
    with _locks[hash(sha) % LOCKS]:  # the jobs of one nightly report together, and one of them asks
        with reading(engine) as conn:
            row = commits.get(conn, sha)
        known = bool(row.known) if row is not None else False
        if not known and (row is None or now - row.checked_at > ASK_AGAIN_S):
            asking()
            known = any(reader.holds(settings.upstream_repo, ref, sha) for ref in settings.self_report_refs)
            with engine.begin() as conn:
                commits.remember(conn, sha, known, now)
    if not known:
        raise CommitUnknown(
            f"delivery_id: {settings.upstream_repo} has no commit {sha} on {' or '.join(settings.self_report_refs)}",
            "report the commit of upstream that was tested",
            path="delivery_id",
        )
