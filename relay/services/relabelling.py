"""Labels set and taken away at any time: level 3's checks appear with the results so far, and are taken back."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, select, update

from relay.domain.effects import labelled
from relay.domain.lifecycle import newest
from relay.services import reporting
from relay.settings import Settings
from relay.store import jobs
from relay.store.schema import dispatch, job, outbox


def relabelled(conn: Connection, settings: Settings, number: int, now: float) -> int:
    """Call it when the labels of upstream's pull request ``number`` changed, in the transaction that stored them with
    its dispatches. -> for how many dispatches the checks appear or go."""
    changed = 0
    for run in _newest_runs(conn, settings.upstream_repo, number):
        shown = labelled(run.device, run.labels)
        if shown == bool(run.shows % 2 if run.shows else _shown_at_first(conn, run)):
            continue
        # odd: shown, even: hidden; it counts up, so that each change has keys of its own
        shows = run.shows + 1 if run.shows % 2 != shown else run.shows + 2
        conn.execute(update(dispatch).where(dispatch.c.id == run.id).values(shows=shows))
        run = conn.execute(select(dispatch).where(dispatch.c.id == run.id)).one()
        for view in newest(jobs.views(conn, run.id)):
            row = jobs.get(conn, view.id)
            assert row is not None
            if shown:
                reporting.report_check(conn, settings, run, row, now)
            else:
                _hide(conn, settings, run, row, now)
        changed += 1
    return changed


def _newest_runs(conn: Connection, upstream: str, number: int) -> list[Row[Any]]:
    """A pull request's newest level 3 dispatch of each downstream."""
    rows = conn.execute(
        select(dispatch)
        .where(dispatch.c.upstream == upstream, dispatch.c.pr_number == number, dispatch.c.level == "L3")
        .where(dispatch.c.state != "superseded", dispatch.c.device.is_not(None))
        .order_by(dispatch.c.id)
    )
    return list({row.downstream_key: row for row in rows}.values())


def _shown_at_first(conn: Connection, run: Row[Any]) -> bool:
    """Whether the label was there from the beginning: then checks were asked for, or the dispatch says so."""
    asked = select(outbox.c.id).where(outbox.c.dispatch_id == run.id, outbox.c.kind == "check_run").limit(1)
    made = select(job.c.id).where(job.c.dispatch_id == run.id, job.c.check_run_id.is_not(None)).limit(1)
    return conn.execute(asked).first() is not None or conn.execute(made).first() is not None


def _hide(conn: Connection, settings: Settings, run: Row[Any], row: Row[Any], now: float) -> None:
    """Takes back a check that was made; one that was not sent yet is not made."""
    unsent = update(outbox).where(
        outbox.c.job_id == row.id, outbox.c.kind == "check_run", outbox.c.state == "due", outbox.c.attempts == 0
    )
    conn.execute(unsent.values(state="dropped", due_at=None, last_error="the label was taken away before it was sent"))
    begun = select(outbox.c.id).where(
        outbox.c.job_id == row.id, outbox.c.kind == "check_run", outbox.c.state.in_(("due", "sent", "parked"))
    )
    if row.check_run_id is not None or conn.execute(begun.limit(1)).first() is not None:
        reporting.hide_check(conn, settings, run, row, now)
