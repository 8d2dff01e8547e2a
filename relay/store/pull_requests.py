"""Upstream's pull requests as deliveries last told them: an older delivery changes nothing, whenever it comes."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, select, update

from relay.domain.facts import PullRequestFact
from relay.store.schema import dispatch, pull_request
from relay.store.upsert import upsert


def hear(conn: Connection, upstream: str, fact: PullRequestFact, now: float) -> bool:
    """Remembers what a delivery says, unless a newer one was heard. True: remembered."""
    event = fact.event
    told: dict[str, Any] = {
        "title": event.title,
        "author": event.author,
        "head_sha": event.head_sha,
        "base_ref": event.base_ref,
        "labels": list(event.labels),
        "draft": event.draft,
        "open": fact.open,
        "told_at": fact.told_at,
        "heard_at": now,
    }
    key = {"upstream_key": upstream.casefold(), "number": event.number}
    return upsert(conn, pull_request, key, told, newer="told_at")


def labels(conn: Connection, upstream: str, number: int) -> list[str] | None:
    """The labels as last heard; None: nothing was heard of this pull request."""
    query = select(pull_request.c.labels).where(
        pull_request.c.upstream_key == upstream.casefold(), pull_request.c.number == number
    )
    found: list[str] | None = conn.execute(query).scalar_one_or_none()
    return found


def relabel(conn: Connection, upstream: str, number: int, names: list[str]) -> None:
    """Tells the dispatches of a pull request its labels, by which level 3 is shown or not."""
    conn.execute(
        update(dispatch)
        .where(dispatch.c.upstream == upstream, dispatch.c.pr_number == number)
        .values(labels=list(names))
    )
