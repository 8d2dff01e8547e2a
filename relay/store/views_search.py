"""What the search box finds: a pull request, a commit, a run, a test, a downstream. Every look-up is by an index, and
stops after a few rows."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, func, literal, select

from relay.domain.search import Query
from relay.store import test_names
from relay.store.schema import decision, dispatch, hud_row, pull_request
from relay.store.views_parts import plain, plain_all

MOST = 20
"""Of each kind."""


def search(conn: Connection, query: Query) -> dict[str, Any]:
    """``{runs, pulls, commits, tests, downstreams}``, each a list of at most MOST."""
    return {
        "runs": _runs(conn, query.run) if query.run else [],
        "pulls": _pulls(conn, query) if query.number else [],
        "commits": _commits(conn, query.sha) if query.sha else [],
        "tests": _tests(conn, query),
        "downstreams": _downstreams(conn, query),
    }


def downstream_keys(conn: Connection) -> list[str]:
    """Every downstream that was ever told of anything, case folded: a walk from name to name, not over all runs."""
    first = select(func.min(dispatch.c.downstream_key).label("key")).cte("names", recursive=True)
    following = select(func.min(dispatch.c.downstream_key)).where(dispatch.c.downstream_key > first.c.key)
    walk = first.union_all(select(following.scalar_subquery()).where(first.c.key.is_not(None)))
    return [key for key in conn.execute(select(walk.c.key)).scalars() if key is not None]


def _runs(conn: Connection, id: str) -> list[dict[str, Any]]:
    row = conn.execute(
        select(dispatch.c.id, dispatch.c.downstream, dispatch.c.pr_number, dispatch.c.state, dispatch.c.conclusion)
        .where(dispatch.c.id == id)
    ).one_or_none()  # fmt: skip
    return [plain(row)] if row is not None else []


def _pulls(conn: Connection, query: Query) -> list[dict[str, Any]]:
    newest = (
        select(dispatch.c.upstream, dispatch.c.pr_number, dispatch.c.pr_title, dispatch.c.created_at)
        .where(dispatch.c.pr_number == query.number)
        .order_by(dispatch.c.created_at.desc())
        .limit(500)
        .subquery()
    )
    told = (
        select(
            newest.c.upstream,
            newest.c.pr_number.label("number"),
            func.max(newest.c.pr_title).label("title"),
            func.max(newest.c.created_at).label("at"),
        )
        .group_by(newest.c.upstream, newest.c.pr_number)
        .order_by(func.max(newest.c.created_at).desc())
        .limit(MOST)
    )
    found = plain_all(conn.execute(told))
    if query.repo:
        found = [one for one in found if one["upstream"].casefold() == query.repo.casefold()]
    for one in found:
        key = (one["upstream"].casefold(), one["number"])
        now = conn.execute(
            select(pull_request.c.title).where(pull_request.c.upstream_key == key[0], pull_request.c.number == key[1])
        ).scalar_one_or_none()
        one["title"] = now or one["title"]
    return found


def _commits(conn: Connection, sha: str) -> list[dict[str, Any]]:
    """Commits that begin with ``sha`` (hexadecimal): those that a run was about, and those that others reported on."""
    ours = (
        select(dispatch.c.head_sha.label("sha"), dispatch.c.upstream, dispatch.c.pr_number, dispatch.c.created_at)
        .where(dispatch.c.head_sha >= sha, dispatch.c.head_sha < sha + "g")
        .order_by(dispatch.c.head_sha)
        .limit(10 * MOST)
    )
    theirs = (
        select(hud_row.c.head_sha.label("sha"), hud_row.c.upstream, hud_row.c.pr_number, hud_row.c.created_at)
        .where(hud_row.c.head_sha >= sha, hud_row.c.head_sha < sha + "g")
        .order_by(hud_row.c.head_sha)
        .limit(10 * MOST)
    )
    found: dict[str, dict[str, Any]] = {}
    for source in (ours, theirs):
        for row in conn.execute(source):
            one = found.setdefault(row.sha, {**plain(row), "at": row.created_at})
            one["at"] = max(one["at"], row.created_at)
            one["pr_number"] = one["pr_number"] or row.pr_number
    for one in found.values():
        del one["created_at"]
    return sorted(found.values(), key=lambda one: -one["at"])[:MOST]


def runs_of_commit(conn: Connection, sha: str) -> list[dict[str, Any]]:
    """Runs of one whole commit, the newest first."""
    rows = conn.execute(
        select(dispatch.c.id, dispatch.c.downstream, dispatch.c.pr_number, dispatch.c.state, dispatch.c.conclusion,
               dispatch.c.created_at, dispatch.c.summary.label("title"))
        .where(dispatch.c.head_sha == sha).order_by(dispatch.c.created_at.desc()).limit(MOST)
    )  # fmt: skip
    return plain_all(rows)


def _tests(conn: Connection, query: Query) -> list[str]:
    if not query.test:
        return []
    found = test_names.beginning(conn, query.test, MOST)
    if not found and query.whole_test:
        # a test that no run ever ran may still have been decided about
        asked = select(literal(1)).where(decision.c.subject == query.test).limit(1)
        found = [query.test] if conn.execute(asked).first() is not None else []
    return found


def _downstreams(conn: Connection, query: Query) -> list[str]:
    if not query.word:
        return []
    keys = [key for key in downstream_keys(conn) if query.word in key][:MOST]
    names = []
    for key in keys:
        newest = select(dispatch.c.downstream).where(dispatch.c.downstream_key == key)
        names.append(conn.execute(newest.order_by(dispatch.c.created_at.desc()).limit(1)).scalar_one())
    return names
