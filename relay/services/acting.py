"""What a person does at a page: run again, send again, drop, put into quarantine. Each is in the table of actions, in
the transaction that does it."""

from __future__ import annotations

from sqlalchemy import Connection, select

from relay.domain.access import Viewer
from relay.errors import BadRequest, Conflict, Forbidden, NotFound
from relay.store import audit, deliveries, outbox_ops, reruns
from relay.store.ids import new_id
from relay.store.schema import dispatch, job, rerun
from relay.store.views_parts import CLOSED

REASON_MAX = 500
SCOPES = ("failed", "all")


def need(viewer: Viewer, action: str, downstream: str | None = None) -> None:
    """Forbidden where ``viewer`` may not."""
    if not viewer.may(action, downstream):
        of = f" of {downstream}" if downstream else ""
        raise Forbidden(f"{viewer.login} may not {action}{of}", "the operators give that right: docs/access.md")


def run_again(conn: Connection, viewer: Viewer, dispatch_id: str, scope: str, now: float) -> str:
    """Asks for a run to be run again: on our workers by its plan, in a downstream's CI its failed jobs or all of them,
    and where it never reported it is told once more. -> what will happen, in a sentence. NotFound, Forbidden, Conflict,
    BadRequest."""
    if scope not in SCOPES:
        raise BadRequest(f"scope: {scope!r} is not one of {', '.join(SCOPES)}", "use the button of the page")
    run = conn.execute(select(dispatch).where(dispatch.c.id == dispatch_id)).one_or_none()
    if run is None:
        raise NotFound(f"there is no run {dispatch_id}", "it may be older than what is kept")
    need(viewer, "rerun", run.downstream)
    if run.state not in CLOSED:
        raise Conflict(f"the run on {run.downstream} is {run.state}", "it can be run again once it is over")
    waits = select(rerun.c.id).where(rerun.c.dispatch_id == dispatch_id, rerun.c.state == "waiting")
    if conn.execute(waits.limit(1)).first() is not None:
        raise Conflict("somebody has asked for this already", "it begins within seconds")
    runs = conn.execute(select(job.c.run_id).where(job.c.dispatch_id == dispatch_id).distinct()).scalars().all()
    if run.executor == "workers":
        wanted = [("", "all")]
    else:
        wanted = [(run_id, scope) for run_id in sorted(runs)] or [("", "dispatch")]
    asked = f"page-{new_id(now)}"
    said = f"{viewer.login} asked for it at the page of the run"
    deliveries.add_asked(conn, asked, repo=run.upstream, reason=said, now=now)
    whole = [(dispatch_id, run_id, of) for run_id, of in wanted]
    reruns.add(conn, asked, whole, requested_by=viewer.login, now=now)
    detail = {"pr": run.pr_number, "sha": run.head_sha, "scope": wanted[0][1], "runs": len(wanted)}
    _note(conn, viewer, "rerun.ask", run.downstream, now, detail, dispatch_id)
    return f"{run.downstream} runs {'this' if wanted[0][1] != 'failed' else 'what failed'} again within seconds."


def send_again(conn: Connection, viewer: Viewer, effect: int, now: float) -> str:
    """Has a parked effect sent once more. NotFound, Forbidden, Conflict."""
    need(viewer, "replay")
    row = outbox_ops.retry(conn, effect, now)
    _note(conn, viewer, "outbox.retry", row.target, now, {"effect": effect, "kind": row.kind}, row.dispatch_id)
    return f"Effect {effect} ({row.kind.replace('_', ' ')} to {row.target}) is sent again."


def drop(conn: Connection, viewer: Viewer, effect: int, reason: str, now: float) -> str:
    """Gives an effect up, for a reason. NotFound, Forbidden, Conflict, BadRequest."""
    need(viewer, "replay")
    reason = reason.strip()
    if not reason or len(reason) > REASON_MAX:
        raise BadRequest(f"reason: give one, of at most {REASON_MAX} characters", "it is kept with the effect")
    row = outbox_ops.drop(conn, effect, f"by {viewer.login}: {reason}", now)
    detail = {"effect": effect, "kind": row.kind, "reason": reason}
    _note(conn, viewer, "outbox.drop", row.target, now, detail, row.dispatch_id)
    return f"Effect {effect} ({row.kind.replace('_', ' ')} to {row.target}) is dropped."


def _note(
    conn: Connection,
    viewer: Viewer,
    action: str,
    target: str,
    now: float,
    detail: dict[str, object],
    dispatch_id: str | None,
) -> None:
    one = audit.entry(action, target, now=now, actor=viewer.login, detail=detail, dispatch_id=dispatch_id)
    audit.record(conn, [one])
