"""What the dashboard's pages read: per downstream how its jobs ended, and which job ended how for which commit."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, select

from relay.store import hud_rows, levels
from relay.store.schema import hud_row, level_proposal
from relay.store.views_parts import plain, plain_all

MAX_ROWS = 20_000
COMMITS = 50


def summary(conn: Connection, *, since: float, event: str | None = None) -> list[dict[str, Any]]:
    """A downstream: rows counted by how they ended (the newest attempt of each run's job), the pass rate over what
    passed and failed, mean seconds, and the last one."""
    wanted = [hud_row.c.created_at >= since]
    if event is not None:
        wanted.append(hud_row.c.event == event)
    rows = conn.execute(
        select(
            hud_row.c.repo,
            hud_row.c.repo_key,
            hud_row.c.level,
            hud_row.c.workflow,
            hud_row.c.job,
            hud_row.c.run_id,
            hud_row.c.delivery_id,
            hud_row.c.attempt,
            hud_row.c.status,
            hud_row.c.conclusion,
            hud_row.c.queue_s,
            hud_row.c.execution_s,
            hud_row.c.created_at,
        )
        .where(*wanted)
        .order_by(hud_row.c.created_at.desc())
        .limit(MAX_ROWS)
    )
    newest: dict[tuple[Any, ...], Any] = {}
    for row in rows:
        key = (row.repo_key, row.delivery_id, row.workflow, row.job, row.run_id)
        if key not in newest or row.attempt > newest[key].attempt:
            newest[key] = row
    found: dict[str, dict[str, Any]] = {}
    for row in newest.values():
        entry = found.setdefault(
            row.repo_key,
            {"repo": row.repo, "level": row.level, "total": 0, "open": 0, "conclusions": {}, "last_at": row.created_at}
            | {"seconds": [], "queue": []},
        )
        entry["total"] += 1
        if row.status != "completed":
            entry["open"] += 1
        elif row.conclusion:
            entry["conclusions"][row.conclusion] = entry["conclusions"].get(row.conclusion, 0) + 1
        if row.execution_s is not None:
            entry["seconds"].append(row.execution_s)
        if row.queue_s is not None:
            entry["queue"].append(row.queue_s)
    return [_told(found[key]) for key in sorted(found)]


def _told(entry: dict[str, Any]) -> dict[str, Any]:
    ended = entry["conclusions"]
    good, bad = ended.get("success", 0), ended.get("failure", 0) + ended.get("timed_out", 0)
    seconds, queue = entry.pop("seconds"), entry.pop("queue")
    return {
        **entry,
        "pass_rate": good / (good + bad) if good + bad else None,
        "mean_s": sum(seconds) / len(seconds) if seconds else None,
        "mean_queue_s": sum(queue) / len(queue) if queue else None,
    }


def backend(conn: Connection, repo: str, *, since: float, event: str | None = None) -> dict[str, Any]:
    """One downstream: its newest commits (or pull requests' heads) by job, and its standing."""
    rows = hud_rows.listed(conn, repo=repo, event=event, since=since, limit=MAX_ROWS)
    commits: dict[str, dict[str, Any]] = {}
    for row in rows:  # newest first
        key = row.head_sha or row.delivery_id
        if key not in commits and len(commits) == COMMITS:
            continue
        commit = commits.setdefault(
            key,
            {"sha": row.head_sha, "pr": row.pr_number, "upstream": row.upstream, "at": row.created_at, "jobs": {}},
        )
        name = f"{row.workflow} / {row.job}"
        known = commit["jobs"].get(name)
        if known is None or row.attempt > known["attempt"]:
            commit["jobs"][name] = {
                name: getattr(row, name)
                for name in ("status", "conclusion", "attempt", "url", "queue_s", "execution_s", "created_at")
            }
    standing = levels.get(conn, repo.casefold())
    names = sorted({name for commit in commits.values() for name in commit["jobs"]})
    return {
        "repo": rows[0].repo if rows else standing.downstream if standing is not None else repo,
        "jobs": names,
        "commits": list(commits.values()),
        "standing": plain(standing) if standing is not None else None,
    }


def standings(conn: Connection) -> list[dict[str, Any]]:
    """Every downstream's readiness, and what is proposed."""
    return plain_all(conn.execute(select(level_proposal).order_by(level_proposal.c.downstream_key)))
