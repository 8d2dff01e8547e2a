"""What the page of a pull request reads; see relay.store.views_parts for the rules that hold here as well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, select

from relay.errors import NotFound
from relay.store.schema import dispatch, result
from relay.store.views_parts import BRIEF, CLOSED, brief, counts_of, jobs_of, shards_of
from relay.store.views_run import compare, group_causes
from selector.model import Side

DISPATCHES_SHOWN = 100
GROUPS_SHOWN = 5
"""Groups of failures a backend; the run's page has them all."""
TESTS_SHOWN = 5
OTHERS = 12
"""Runs of a backend on other changes that are looked at, for whether it fails anyway."""


def pull_request(conn: Connection, number: int, *, upstream: str | None, now: float, base_url: str) -> dict[str, Any]:
    """The dispatches of the newest commit of a pull request that the relay knows, and older commits in brief.

    Without ``upstream`` the repository of the newest dispatch with that number counts. NotFound when there is none.
    """
    wanted: list[ColumnElement[bool]] = [dispatch.c.pr_number == number]
    if upstream:
        wanted.append(dispatch.c.upstream == upstream)
    newest_first = (dispatch.c.created_at.desc(), dispatch.c.id.desc())
    newest = conn.execute(
        select(dispatch.c.upstream, dispatch.c.pr_title, dispatch.c.author, dispatch.c.head_sha)
        .where(*wanted)
        .order_by(*newest_first)
        .limit(1)
    ).one_or_none()
    if newest is None:
        raise NotFound(
            f"no run of pull request {number}" + (f" of {upstream}" if upstream else ""),
            "the relay acted on no event of it; / lists the deliveries, with the reason of ignored ones",
        )
    of_pr = (dispatch.c.upstream == newest.upstream, dispatch.c.pr_number == number)
    rows = conn.execute(
        select(*BRIEF, dispatch.c.oncalls)
        .where(*of_pr, dispatch.c.head_sha == newest.head_sha)
        .order_by(dispatch.c.downstream_key, *newest_first)
        .limit(DISPATCHES_SHOWN)
    ).all()
    ids = [row.id for row in rows]
    failures, based = _failures(conn, ids), _base(conn, ids)
    counts, shards, jobs = counts_of(conn, ids), shards_of(conn, ids), jobs_of(conn, ids)
    older = conn.execute(
        select(*BRIEF)
        .where(*of_pr, dispatch.c.head_sha != newest.head_sha)
        .order_by(*newest_first)
        .limit(DISPATCHES_SHOWN)
    )
    commits: dict[str, dict[str, Any]] = {}
    for row in older:
        commits.setdefault(row.head_sha, {"head_sha": row.head_sha, "dispatches": []})["dispatches"].append(
            brief(row, base_url)
        )
    return {
        "now": now,
        "pr": number,
        "upstream": newest.upstream,
        "title": newest.pr_title,
        "author": newest.author,
        "head_sha": newest.head_sha,
        "open": any(row.state not in CLOSED for row in rows),
        "dispatches": [
            {
                **brief(row, base_url),
                "counts": counts[row.id],
                "shards": shards[row.id],
                "jobs": jobs[row.id],
                "failures": failures[row.id],
                "base": based[row.id],
            }
            for row in rows
        ],
        "others": _others(conn, [row for row in rows if row.conclusion == "failure"], number),
        "older": list(commits.values()),
    }


def _failures(conn: Connection, ids: list[str]) -> dict[str, dict[str, Any]]:
    """A dispatch: its failures grouped by cause as its own page has them, cut to what this page shows; ``regressed``
    counts the tests that the change broke."""
    found: dict[str, dict[str, Any]] = {id: {"total": 0, "regressed": 0, "groups": [], "more": 0} for id in ids}
    rows = conn.execute(select(dispatch.c.id, dispatch.c.verdict).where(dispatch.c.id.in_(ids))).all()
    for row in rows:
        causes = (row.verdict or {}).get("causes") or []
        if not causes:
            continue
        groups = group_causes(causes)
        shown = [{**group, "tests": group["tests"][:TESTS_SHOWN]} for group in groups[:GROUPS_SHOWN]]
        compare(conn, row.id, shown)
        found[row.id] = {
            "total": len(causes),
            "regressed": len({cause["test"] for cause in causes if cause["kind"] == "regression"}),
            "groups": shown,
            "more": max(0, len(groups) - GROUPS_SHOWN),
        }
    return found


def _base(conn: Connection, ids: list[str]) -> dict[str, dict[str, int]]:
    """A dispatch: how the variants ended that ran again on the commit it is compared with."""
    found: dict[str, dict[str, int]] = {id: {} for id in ids}
    rows = conn.execute(
        select(result.c.dispatch_id, result.c.outcome, func.count().label("n"))
        .where(result.c.dispatch_id.in_(ids), result.c.side == Side.BASE.value)
        .group_by(result.c.dispatch_id, result.c.outcome)
    )
    for row in rows:
        found[row.dispatch_id][row.outcome] = row.n
    return found


def _others(conn: Connection, failed: Sequence[Any], number: int) -> dict[str, list[dict[str, Any]]]:
    """dispatch id -> the newest runs of its downstream before it on other changes, the oldest first: whether that fails
    anyway. The relay's own workers run failures on the base commit, which says it better."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in failed:
        if row.executor == "workers":
            continue
        before = conn.execute(
            select(
                dispatch.c.conclusion.label("word"),
                dispatch.c.pr_number.label("pr"),
                dispatch.c.created_at.label("at"),
            )
            .where(
                dispatch.c.downstream_key == row.downstream.casefold(),
                dispatch.c.created_at < row.created_at,
                dispatch.c.conclusion.in_(("success", "failure")),
                dispatch.c.pr_number.is_distinct_from(number),
            )
            .order_by(dispatch.c.created_at.desc())
            .limit(OTHERS)
        ).all()
        found[row.id] = [{"word": one.word, "pr": one.pr, "at": one.at} for one in reversed(before)]
    return found
