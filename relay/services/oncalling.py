"""Calls a downstream's oncalls when a pull request breaks it: one comment a failure streak (relay.domain.oncall)."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, exists, select

from relay.domain import oncall
from relay.domain.conclusions import BY_CODE
from relay.domain.effects import labelled
from relay.domain.lifecycle import newest
from relay.settings import Settings
from relay.store import jobs, outbox, streaks
from relay.store.schema import dispatch
from relay.store.schema import outbox as table


def ended(
    conn: Connection,
    settings: Settings,
    run: Row[Any],
    *,
    conclusion: str | None,
    code: str | None,
    summary: str,
    now: float,
) -> None:
    """A dispatch has come to an end, for now: what it means for its streak, and the comment that follows. Nothing for
    a commit that has a successor, or that the pull request does not show. ``summary`` is one sentence, as it came."""
    if not settings.oncall_comments or run.pr_number is None or run.state == "superseded" or not _shown(run):
        return
    if _has_successor(conn, run):
        return
    known = streaks.open_of(conn, run.upstream, run.pr_number, run.downstream_key)
    end = oncall.End(
        run.id,
        run.downstream,
        run.level,
        run.head_sha,
        conclusion,
        code if code in BY_CODE else None,
        summary,
        run.oncalls or (),
        f"{settings.url}/run/{run.id}",
        _jobs(conn, run),
    )
    step = oncall.step(oncall.Streak(known.id, known.failures, known.dispatch_id) if known is not None else None, end)
    if step.what == "none":
        return
    if known is None:
        row = streaks.begin(
            conn,
            upstream=run.upstream,
            number=run.pr_number,
            downstream_key=run.downstream_key,
            dispatch_id=run.id,
            now=now,
        )
    else:
        text = oncall.comment(known.id, end, step)
        if text == _said(conn, known.id):
            return
        over = step.what == "end"
        row = streaks.move(conn, known.id, failures=step.failures, dispatch_id=run.id, now=now, over=over)
    outbox.enqueue(
        conn,
        key=f"comment:{row.id}:{row.version}",
        kind="comment",
        stream=_stream(row.id),
        target=run.upstream,
        payload={
            "streak": row.id,
            "number": run.pr_number,
            "text": oncall.comment(row.id, end, step),
            "first": row.version == 1,
        },
        now=now,
        dispatch_id=run.id,
    )


def _shown(run: Row[Any]) -> bool:
    return run.level == "L4" or (run.level == "L3" and labelled(run.device, run.labels))


def _has_successor(conn: Connection, run: Row[Any]) -> bool:
    later = select(dispatch.c.id).where(
        dispatch.c.upstream == run.upstream,
        dispatch.c.pr_number == run.pr_number,
        dispatch.c.downstream_key == run.downstream_key,
        dispatch.c.id > run.id,
    )
    return bool(conn.execute(select(exists(later))).scalar_one())


def _jobs(conn: Connection, run: Row[Any]) -> list[tuple[str, str, str | None]]:
    found = []
    for view in newest(jobs.views(conn, run.id)):
        if view.conclusion in oncall.FAILING:
            row = jobs.get(conn, view.id)
            url = row.url if row is not None and row.url and row.url.startswith("https://") else None
            found.append((f"{view.workflow} / {view.name}", view.conclusion, url))
    return found


def _stream(streak_id: str) -> str:
    return f"comment:{streak_id}"


def _said(conn: Connection, streak_id: str) -> str | None:
    """What the comment says now, or will once it is sent."""
    query = select(table.c.payload).where(table.c.stream == _stream(streak_id)).order_by(table.c.id.desc()).limit(1)
    payload = conn.execute(query).scalar_one_or_none()
    return payload["text"] if payload is not None else None
