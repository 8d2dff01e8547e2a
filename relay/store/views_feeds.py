"""What badges and feeds read: the newest concluded runs of a downstream or of a pull request."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection, select

from relay.errors import NotFound
from relay.store.schema import dispatch
from relay.store.views_parts import plain_all

ENTRIES = 50
LOOKED_AT = 200
"""Newest runs among which the concluded ones are looked for: the cost has a bound."""


def of_downstream(conn: Connection, repo: str, *, event: str | None = None) -> list[dict[str, Any]]:
    """The newest concluded runs of a downstream, in any spelling. NotFound where it was never told of anything."""
    wanted = dispatch.c.downstream_key == repo.casefold()
    found = _concluded(conn, wanted, event)
    if not found and conn.execute(select(dispatch.c.id).where(wanted).limit(1)).first() is None:
        raise NotFound(f"nothing is known of {repo}", "/crcr lists the downstreams that have reported")
    return found


def of_pull(conn: Connection, number: int, upstream: str | None) -> list[dict[str, Any]]:
    """The newest concluded runs of a pull request, whatever its commit. NotFound where there is none."""
    wanted = dispatch.c.pr_number == number
    if upstream is not None:
        wanted = wanted & (dispatch.c.upstream == upstream)
    found = _concluded(conn, wanted, None)
    if not found and conn.execute(select(dispatch.c.id).where(wanted).limit(1)).first() is None:
        raise NotFound(f"no run of pull request {number} is known", "the relay hears of it with its next event")
    return found


def _concluded(conn: Connection, where: ColumnElement[bool], event: str | None) -> list[dict[str, Any]]:
    columns = (dispatch.c.id, dispatch.c.downstream, dispatch.c.upstream, dispatch.c.event, dispatch.c.pr_number,
               dispatch.c.pr_title, dispatch.c.head_sha, dispatch.c.conclusion, dispatch.c.code, dispatch.c.summary,
               dispatch.c.created_at, dispatch.c.closed_at)  # fmt: skip
    newest = select(*columns).where(where)
    if event is not None:
        newest = newest.where(dispatch.c.event == event)
    rows = conn.execute(newest.order_by(dispatch.c.created_at.desc()).limit(LOOKED_AT))
    return [row for row in plain_all(rows) if row["conclusion"] is not None and row["closed_at"] is not None][:ENTRIES]
