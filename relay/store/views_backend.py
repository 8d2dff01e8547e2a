"""What /crcr/{owner}/{repo} reads: one downstream's commits by workflow and job, and what its level asks."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, select, union_all

from relay.domain import readiness
from relay.store import levels
from relay.store.schema import dispatch, hud_row, level_proposal
from relay.store.views_backends import marks, rate, windows
from relay.store.views_parts import plain, plain_all

RUNS = 500
"""Newest runs of the downstream that the grid is made of."""
COMMITS = 50
POINTS = 200
BAD = ("failure", "timed_out", "action_required")


def backend(
    conn: Connection,
    repo: str,
    *,
    since: float,
    event: str | None = None,
    find: str = "",
    failing: bool = False,
    grouped: bool = False,
    pins: tuple[str, ...] = (),
) -> dict[str, Any]:
    """One downstream's newest commits (or pull requests' heads) by job.

    A cell is keyed by commit, workflow and job, and shows the newest attempt of the newest run of that commit. ``find``
    keeps jobs whose ``workflow / job`` has it, ``failing`` those that failed on any commit shown, ``grouped`` makes one
    column a workflow that says the worst of its jobs, ``pins`` are columns that come first.
    """
    jobs = union_all(*windows(since, event, repo, limit=RUNS)).subquery("jobs")
    rows = conn.execute(select(jobs).order_by(jobs.c.at.desc())).all()
    commits: dict[str, dict[str, Any]] = {}
    cells: dict[tuple[str, str], dict[str, Any]] = {}
    conclusions: dict[str, int] = {}
    points: list[dict[str, Any]] = []
    for row in rows:  # newest first: the first one of a cell is the one that counts
        if row.conclusion:
            conclusions[row.conclusion] = conclusions.get(row.conclusion, 0) + 1
        if row.run_s is not None and len(points) < POINTS:
            points.append(
                {"at": row.at, "queue_s": row.queue_s, "run_s": row.run_s, "job": f"{row.workflow} / {row.job}"}
            )
        key = row.sha or row.run
        if key not in commits:
            if len(commits) == COMMITS:
                continue
            commits[key] = {"sha": row.sha, "pr": row.pr_number, "upstream": row.upstream, "event": row.event}
            commits[key] |= {"at": row.at, "run": row.run if len(row.run) == 32 else None, "jobs": {}}
        cells.setdefault((key, f"{row.workflow} / {row.job}"), _cell(row))
    names = sorted({name for _, name in cells if find.casefold() in name.casefold()})
    if failing:
        bad = {name for (_, name), cell in cells.items() if cell["conclusion"] in BAD}
        names = [name for name in names if name in bad]
    for (key, name), cell in cells.items():
        if name in set(names):
            commits[key]["jobs"][name] = cell
    shown = list(commits.values())
    if grouped:
        names, shown = _by_workflow(shown)
    if failing:
        shown = [commit for commit in shown if any(cell["conclusion"] in BAD for cell in commit["jobs"].values())]
    _tell(conn, shown)
    key = repo.casefold()
    standing = levels.get(conn, key)
    newest = marks(conn, only=key)
    return {
        "repo": rows[0].repo if rows else standing.downstream if standing is not None else repo,
        "known": bool(rows) or standing is not None or ever(conn, repo.casefold()),
        "pass_rate": rate(conclusions),
        "conclusions": conclusions,
        "jobs": [name for name in pins if name in names] + [name for name in names if name not in pins],
        "pins": [name for name in pins if name in names],
        "commits": shown,
        "times": points[::-1],
        "standing": plain(standing) if standing is not None else None,
        "asked": readiness.checklist(standing.measured) if standing is not None else [],
        "kept": readiness.kept(standing.measured) if standing is not None else [],
        "marks": newest.get(key, []),
    }


def ever(conn: Connection, key: str) -> bool:
    """Whether anything was ever sent to a downstream, or reported by it."""
    ours = select(dispatch.c.id).where(dispatch.c.downstream_key == key).limit(1)
    theirs = select(hud_row.c.key).where(hud_row.c.repo_key == key).limit(1)
    return any(conn.execute(query).first() is not None for query in (ours, theirs))


def _cell(row: Any) -> dict[str, Any]:
    kept = ("workflow", "job", "status", "conclusion", "attempt", "url", "queue_s", "run_s", "run", "at")
    return {name: getattr(row, name) for name in kept}


def _tell(conn: Connection, commits: list[dict[str, Any]]) -> None:
    """What each commit is about and how our run of it ended, in words; None of another relay's."""
    ids = [commit["run"] for commit in commits if commit["run"]]
    columns = (dispatch.c.id, dispatch.c.pr_title, dispatch.c.summary)
    told = {row.id: row for row in conn.execute(select(*columns).where(dispatch.c.id.in_(ids)))} if ids else {}
    for commit in commits:
        row = told.get(commit["run"])
        commit["title"], commit["summary"] = (row.pr_title, row.summary) if row is not None else (None, None)


def _by_workflow(commits: list[dict[str, Any]]) -> tuple[list[str], list[dict[str, Any]]]:
    """One cell a workflow: the worst of its jobs, and how many of them passed."""
    names: set[str] = set()
    for commit in commits:
        groups: dict[str, list[dict[str, Any]]] = {}
        for cell in commit["jobs"].values():
            groups.setdefault(cell["workflow"], []).append(cell)
        names |= set(groups)
        commit["jobs"] = {name: _worst(cells) for name, cells in groups.items()}
    return sorted(names), commits


def _worst(cells: list[dict[str, Any]]) -> dict[str, Any]:
    order = {word: place for place, word in enumerate((*BAD, None, "neutral"))}
    worst = min(cells, key=lambda cell: order.get(cell["conclusion"], len(order)))
    return {**worst, "jobs": len(cells), "passed": sum(cell["conclusion"] == "success" for cell in cells)}


def standings(conn: Connection) -> list[dict[str, Any]]:
    """Every downstream's readiness, and what is proposed."""
    return plain_all(conn.execute(select(level_proposal).order_by(level_proposal.c.downstream_key)))
