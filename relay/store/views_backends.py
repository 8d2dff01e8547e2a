"""What /crcr reads: per downstream how its jobs ended lately. See relay.store.views_parts for the rules that hold here.

Jobs come from two places: those of this relay's own dispatches, and rows that other relays post to its dashboard. A
row about a dispatch that is our own is left out, so nothing counts twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    Select,
    Subquery,
    and_,
    case,
    cast,
    distinct,
    exists,
    func,
    null,
    or_,
    select,
    tuple_,
)

from relay.domain.readiness import LEFT_OUT
from relay.store.schema import dispatch, hud_row, job
from relay.store.trunk import TRUNK_EVENT

NEWEST = 5000
"""Dispatches, and rows of other relays, that a summary looks at: its cost has a bound, whatever was kept."""
BUCKETS = 14
"""Bars of a sparkline."""
MARKS = 10
"""Newest runs of a downstream that lists show, one mark each."""
GOOD = ("success", "neutral")
_NAMES = (
    "repo_key", "repo", "level", "event", "upstream", "pr_number", "sha", "run", "at", "workflow", "job", "run_id",
    "attempt", "status", "conclusion", "url", "queue_s", "run_s",
)  # fmt: skip


def own_jobs(wanted: Subquery) -> Select[Any]:
    """Jobs of the dispatches whose ids ``wanted`` has, in the columns of _NAMES; ``run`` is the dispatch's id. Of each
    (workflow, job) the newest run's newest attempt, as relay.domain.lifecycle has it."""
    other = job.alias("other")
    # each is one look into the unique index: a window function would sort all of them
    newer = exists().where(
        other.c.dispatch_id == job.c.dispatch_id,
        other.c.workflow == job.c.workflow,
        other.c.name == job.c.name,
        or_(
            func.length(other.c.run_id) > func.length(job.c.run_id),
            and_(
                func.length(other.c.run_id) == func.length(job.c.run_id),
                tuple_(other.c.run_id, other.c.attempt) > tuple_(job.c.run_id, job.c.attempt),
            ),
        ),
    )
    return (
        select(
            dispatch.c.downstream_key.label("repo_key"),
            dispatch.c.downstream.label("repo"),
            dispatch.c.level,
            dispatch.c.event,
            dispatch.c.upstream,
            dispatch.c.pr_number,
            dispatch.c.head_sha.label("sha"),
            dispatch.c.id.label("run"),
            dispatch.c.created_at.label("at"),
            job.c.workflow,
            job.c.name.label("job"),
            job.c.run_id,
            job.c.attempt,
            job.c.status,
            job.c.conclusion,
            job.c.url,
            case((job.c.start_known, job.c.started_at - job.c.queued_at), else_=null()).label("queue_s"),
            case((job.c.start_known, job.c.completed_at - job.c.started_at), else_=null()).label("run_s"),
        )
        .select_from(wanted)
        .join(dispatch, dispatch.c.id == wanted.c.id)
        .join(job, job.c.dispatch_id == dispatch.c.id)
        .where(~newer)
    )


def posted_jobs(wanted: Subquery) -> Select[Any]:
    """The dashboard's rows with keys of ``wanted`` that are about no dispatch of ours, in the same columns; of each
    (delivery, workflow, job) the newest."""
    mine = exists().where(
        dispatch.c.delivery_id == hud_row.c.delivery_id, dispatch.c.downstream_key == hud_row.c.repo_key
    )
    newest = func.row_number().over(
        partition_by=(hud_row.c.repo_key, hud_row.c.delivery_id, hud_row.c.workflow, hud_row.c.job),
        order_by=(func.length(hud_row.c.run_id).desc(), hud_row.c.run_id.desc(), hud_row.c.attempt.desc()),
    )
    ranked = (
        select(
            hud_row.c.repo_key,
            hud_row.c.repo,
            hud_row.c.level,
            hud_row.c.event,
            hud_row.c.upstream,
            hud_row.c.pr_number,
            hud_row.c.head_sha.label("sha"),
            hud_row.c.delivery_id.label("run"),
            hud_row.c.created_at.label("at"),
            hud_row.c.workflow,
            hud_row.c.job,
            hud_row.c.run_id,
            hud_row.c.attempt,
            hud_row.c.status,
            hud_row.c.conclusion,
            hud_row.c.url,
            hud_row.c.queue_s,
            hud_row.c.execution_s.label("run_s"),
            newest.label("place"),
        )
        .select_from(wanted)
        .join(hud_row, hud_row.c.key == wanted.c.key)
        .where(~mine)
        .subquery("ranked")
    )
    return select(*(ranked.c[name] for name in _NAMES)).where(ranked.c.place == 1)


def run_again() -> ColumnElement[bool]:
    """Whether the commit of a dispatch was run again later, and that ended: then only the last run counts (as in
    relay.store.levels)."""
    later = dispatch.alias("later")
    return exists().where(
        later.c.downstream_key == dispatch.c.downstream_key,
        later.c.head_sha == dispatch.c.head_sha,
        later.c.rerun_of.is_not(None),
        later.c.id > dispatch.c.id,
        later.c.state.in_(("completed", "failed")),
    )


def windows(since: float, event: str | None, repo: str | None = None, limit: int = NEWEST) -> tuple[Select[Any], ...]:
    """The newest attempts of the jobs of runs made after ``since`` that were not superseded: ours, and others'."""
    ours = [dispatch.c.created_at >= since, dispatch.c.event != TRUNK_EVENT]
    theirs = [hud_row.c.created_at >= since]
    if event is not None:
        ours.append(dispatch.c.event == event)
        theirs.append(hud_row.c.event == event)
    if repo is not None:
        ours.append(dispatch.c.downstream_key == repo.casefold())
        theirs.append(hud_row.c.repo_key == repo.casefold())
    runs = (
        select(dispatch.c.id)
        .where(*ours, dispatch.c.state != "superseded", ~run_again())
        .order_by(dispatch.c.created_at.desc())
        .limit(limit)
        .subquery("runs")
    )
    rows = select(hud_row.c.key).where(*theirs).order_by(hud_row.c.created_at.desc()).limit(limit).subquery("posted")
    return own_jobs(runs), posted_jobs(rows)


def summary(conn: Connection, *, since: float, now: float, event: str | None = None) -> list[dict[str, Any]]:
    """A downstream: jobs by conclusion, the pass rate (readiness' own: cancelled, skipped and stale ones say nothing),
    mean seconds of waiting and running, the last one, and ``spark``: BUCKETS equal parts of the time, each with what
    passed and what did not."""
    width = max(now - since, 1.0) / BUCKETS
    rows = [row for source in windows(since, event) for row in conn.execute(_tally(source, since, width))]
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        entry = found.setdefault(row.repo_key, _empty())
        entry["total"] += row.n
        entry["last_at"] = max(entry["last_at"], row.last_at)
        if row.status != "completed":
            entry["open"] += row.n
        elif row.conclusion:
            entry["conclusions"][row.conclusion] = entry["conclusions"].get(row.conclusion, 0) + row.n
            if row.conclusion not in LEFT_OUT:
                part = entry["spark"][min(max(row.bucket, 0), BUCKETS - 1)]
                part["good" if row.conclusion in GOOD else "bad"] += row.n
        for name, count in (("queue_s", row.queues), ("run_s", row.runs)):
            if count:
                entry["sums"][name] += getattr(row, name)
                entry["sums"][f"{name}_n"] += count
    names = _names(conn, list(found))
    return [{**names[key], **_told(found[key])} for key in sorted(found)]


def _names(conn: Connection, keys: list[str]) -> dict[str, dict[str, Any]]:
    """How each is spelt, and its level, by what came last."""
    found: dict[str, dict[str, Any]] = {key: {"repo": key, "level": None} for key in keys}
    for table, key, repo in (
        (hud_row, hud_row.c.repo_key, hud_row.c.repo),
        (dispatch, dispatch.c.downstream_key, dispatch.c.downstream),
    ):
        newest = select(key.label("key"), func.max(table.c.created_at).label("at")).where(key.in_(keys)).group_by(key)
        last = newest.subquery("last")
        rows = conn.execute(
            select(key.label("key"), repo.label("repo"), table.c.level).join(
                last, and_(last.c.key == key, last.c.at == table.c.created_at)
            )
        )
        found |= {row.key: {"repo": row.repo, "level": row.level} for row in rows}
    return found


def _tally(source: Select[Any], since: float, width: float) -> Select[Any]:
    jobs = source.subquery("jobs")
    bucket = cast((jobs.c.at - since) / width, Integer)
    return select(
        jobs.c.repo_key,
        bucket.label("bucket"),
        jobs.c.status,
        jobs.c.conclusion,
        func.count().label("n"),
        func.sum(jobs.c.queue_s).label("queue_s"),
        func.count(jobs.c.queue_s).label("queues"),
        func.sum(jobs.c.run_s).label("run_s"),
        func.count(jobs.c.run_s).label("runs"),
        func.max(jobs.c.at).label("last_at"),
    ).group_by(jobs.c.repo_key, "bucket", jobs.c.status, jobs.c.conclusion)


def _empty() -> dict[str, Any]:
    return {
        "total": 0, "open": 0, "conclusions": {}, "last_at": 0.0,
        "spark": [{"good": 0, "bad": 0} for _ in range(BUCKETS)],
        "sums": {"queue_s": 0.0, "queue_s_n": 0, "run_s": 0.0, "run_s_n": 0},
    }  # fmt: skip


def _told(entry: dict[str, Any]) -> dict[str, Any]:
    sums = entry.pop("sums")
    return {
        **entry,
        "pass_rate": rate(entry["conclusions"]),
        "mean_s": sums["run_s"] / sums["run_s_n"] if sums["run_s_n"] else None,
        "mean_queue_s": sums["queue_s"] / sums["queue_s_n"] if sums["queue_s_n"] else None,
    }


def rate(conclusions: dict[str, int]) -> float | None:
    """Passed over what says anything; None: nothing does."""
    counted = sum(n for word, n in conclusions.items() if word not in LEFT_OUT)
    return sum(conclusions.get(word, 0) for word in GOOD) / counted if counted else None


def marks(
    conn: Connection, *, newest: int = NEWEST, each: int = MARKS, only: str | None = None
) -> dict[str, list[dict[str, Any]]]:
    """downstream key -> its newest runs among the ``newest`` dispatches (of the downstream ``only``, where one is
    named), oldest first: ``{id, word, pr, at}`` each."""
    counted = [dispatch.c.event != TRUNK_EVENT, dispatch.c.state != "superseded"]
    if only is not None:
        newest, counted = each, [*counted, dispatch.c.downstream_key == only]
    runs = select(dispatch.c.id).where(*counted).order_by(dispatch.c.created_at.desc()).limit(newest).subquery("runs")
    place = func.row_number().over(partition_by=dispatch.c.downstream_key, order_by=dispatch.c.created_at.desc())
    ranked = (
        select(
            dispatch.c.downstream_key,
            dispatch.c.id,
            func.coalesce(dispatch.c.conclusion, dispatch.c.state).label("word"),
            dispatch.c.pr_number.label("pr"),
            dispatch.c.created_at.label("at"),
            place.label("place"),
        )
        .select_from(runs)
        .join(dispatch, dispatch.c.id == runs.c.id)
        .subquery("ranked")
    )
    found: dict[str, list[dict[str, Any]]] = {}
    for row in conn.execute(select(ranked).where(ranked.c.place <= each).order_by(ranked.c.place.desc())):
        found.setdefault(row.downstream_key, []).append({"id": row.id, "word": row.word, "pr": row.pr, "at": row.at})
    return found


def failing_rows(conn: Connection, keys: Sequence[str]) -> dict[str, dict[str, Any]]:
    """downstream key -> all its failures since it last passed: ``{runs, at, pulls, more}`` as
    relay.web.pages_streak.failing_since has it, for those of which the newest marks tell no pass. ``more``: it is not
    known to have passed ever."""
    if not keys:
        return {}
    said = (
        dispatch.c.downstream_key.in_(keys),
        dispatch.c.event != TRUNK_EVENT,
        dispatch.c.state != "superseded",
    )
    passed = (
        select(dispatch.c.downstream_key.label("key"), func.max(dispatch.c.created_at).label("at"))
        .where(*said, dispatch.c.conclusion == "success")
        .group_by(dispatch.c.downstream_key)
        .subquery("passed")
    )
    rows = conn.execute(
        select(
            dispatch.c.downstream_key,
            func.count().label("runs"),
            func.min(dispatch.c.created_at).label("at"),
            func.count(distinct(dispatch.c.pr_number)).label("pulls"),
            func.max(passed.c.at).label("passed"),
        )
        .select_from(dispatch)
        .outerjoin(passed, passed.c.key == dispatch.c.downstream_key)
        .where(*said, dispatch.c.conclusion == "failure", dispatch.c.created_at > func.coalesce(passed.c.at, 0.0))
        .group_by(dispatch.c.downstream_key)
    )
    return {
        row.downstream_key: {"runs": row.runs, "at": row.at, "pulls": row.pulls, "more": row.passed is None}
        for row in rows
    }
