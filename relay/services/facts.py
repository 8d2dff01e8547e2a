"""Notes what a webhook says beside what it starts, in the transaction that commits it."""

from __future__ import annotations

import structlog
from sqlalchemy import Connection

from relay.domain.facts import Fact, InstallationFact, PullRequestFact, RepositoryFact
from relay.services import relabelling
from relay.settings import Settings
from relay.store import pull_requests, repositories, reruns

log = structlog.get_logger(__name__)
RELABELLING = ("labeled", "unlabeled")


def note(conn: Connection, settings: Settings, delivery_id: str, fact: Fact, now: float) -> None:
    """Stores ``fact``. The delivery was claimed by the caller, so this happens once a delivery."""
    if isinstance(fact, PullRequestFact):
        event = fact.event
        newest = pull_requests.hear(conn, settings.upstream_repo, fact, now)
        if newest and event.action in RELABELLING:
            pull_requests.relabel(conn, settings.upstream_repo, event.number, list(event.labels))
            relabelling.relabelled(conn, settings, event.number, now)
    elif isinstance(fact, RepositoryFact):
        repositories.hear(conn, fact, now)
        log.info("repository", id=fact.id, name=fact.name, was=fact.old_name)
    elif isinstance(fact, InstallationFact):
        repositories.hear_installation(conn, fact, now)
        log.info("installation", id=fact.id, account=fact.account, state=fact.state)
    else:
        asked = reruns.ask(conn, delivery_id, settings.upstream_repo, fact, now)
        log.info("rerun asked for", delivery=delivery_id, runs=asked, by=fact.requested_by)
