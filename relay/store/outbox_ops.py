"""What a person may do to an effect, and what opens again by itself: look, send again, give up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, exists, func, or_, select, update

from relay.domain.retry import DASHBOARD
from relay.errors import Conflict, NotFound
from relay.store.outbox import CLAIM_S, get
from relay.store.schema import dispatch, outbox

STATES = ("due", "sent", "parked", "dropped")
_later = outbox.alias("later")


def listed(
    conn: Connection, *, states: Sequence[str], kind: str | None, target: str | None, limit: int
) -> Sequence[Row[Any]]:
    """Effects in these states, the oldest first. ``target``: owner/repo or owner, in any case."""
    query = select(outbox).where(outbox.c.state.in_(states)).order_by(outbox.c.id).limit(limit)
    if kind is not None:
        query = query.where(outbox.c.kind == kind)
    if target is not None:
        name = target.casefold()
        query = query.where(
            or_(
                func.lower(outbox.c.target) == name, func.lower(outbox.c.target).startswith(f"{name}/", autoescape=True)
            )
        )
    return conn.execute(query).all()


def retry(conn: Connection, outbox_id: int, now: float) -> Row[Any]:
    """Has an effect sent again, from now on as if it were new. NotFound; Conflict when it has left, is being sent, or
    would set back what left after it."""
    row = _get(conn, outbox_id)
    if row.state == "sent":
        raise Conflict(f"effect {outbox_id} has left", "a second one would be a double")
    if row.state == "due" and row.ambiguous and row.not_before - now <= CLAIM_S:
        raise Conflict(f"effect {outbox_id} is being sent now", f"look again in {CLAIM_S:.0f} s")
    if row.state != "due":
        _check_order(conn, row)
    if row.kind == "dispatch":
        _reopen_dispatch(conn, row, now)
    fresh = {"state": "due", "due_at": now, "not_before": now, "attempts": 0, "asked_at": now}
    conn.execute(update(outbox).where(outbox.c.id == outbox_id, outbox.c.state == row.state).values(**fresh))
    return _get(conn, outbox_id)


def drop(conn: Connection, outbox_id: int, reason: str, now: float) -> Row[Any]:
    """Gives an effect up. NotFound; Conflict when it has left or is given up already."""
    row = _get(conn, outbox_id)
    if row.state not in ("due", "parked"):
        raise Conflict(f"effect {outbox_id} is {row.state}", "only what is due or parked can be dropped")
    gone = update(outbox).where(outbox.c.id == outbox_id, outbox.c.state == row.state)
    conn.execute(gone.values(state="dropped", due_at=None, last_error=reason))
    if row.kind == "dispatch":
        ended = update(dispatch).where(dispatch.c.id == row.dispatch_id, dispatch.c.state == "sending")
        code = "dispatch-not-sent"
        conn.execute(
            ended.values(state="failed", error=reason, code=code, closed_at=now, summary=f"not dispatched: {reason}")
        )
    return _get(conn, outbox_id)


def parked_with(conn: Connection, codes: Iterable[str], since: float, limit: int = 500) -> Sequence[Row[Any]]:
    """Parked effects that were given up for one of the reason ``codes`` and were asked for after ``since``."""
    by_code = [outbox.c.last_error.startswith(f"{code}:", autoescape=True) for code in codes]
    asked_at = func.coalesce(outbox.c.asked_at, outbox.c.created_at)
    query = select(outbox).where(outbox.c.state == "parked", or_(*by_code), asked_at >= since)
    return conn.execute(query.order_by(outbox.c.id).limit(limit)).all()


def _get(conn: Connection, outbox_id: int) -> Row[Any]:
    row = get(conn, outbox_id)
    if row is None:
        raise NotFound(f"there is no effect {outbox_id}", "`relay outbox list` shows their numbers")
    return row


def _check_order(conn: Connection, row: Row[Any]) -> None:
    newer = select(_later.c.id).where(
        _later.c.stream == row.stream, _later.c.id > row.id, _later.c.state.in_(("sent", "due"))
    )
    if conn.execute(select(exists(newer))).scalar_one():
        raise Conflict(
            f"effect {row.id} is no longer the newest of its stream: what came after it tells more",
            "send the newest one again, if any",
        )


def _reopen_dispatch(conn: Connection, row: Row[Any], now: float) -> None:
    run = conn.execute(select(dispatch).where(dispatch.c.id == row.dispatch_id)).one()
    if run.state == "superseded":
        raise Conflict(f"effect {row.id}: its dispatch was superseded", "the newer commit's dispatch counts")
    newer = select(dispatch.c.id).where(
        dispatch.c.upstream == run.upstream,
        dispatch.c.pr_number == run.pr_number,
        dispatch.c.downstream_key == run.downstream_key,
        dispatch.c.id > run.id,
    )
    if run.pr_number is not None and conn.execute(select(exists(newer))).scalar_one():
        raise Conflict(f"effect {row.id}: the pull request has a newer dispatch", "it would cancel that one's run")
    conn.execute(
        update(dispatch)
        .where(dispatch.c.id == run.id, dispatch.c.state == "failed")
        .values(state="sending", error=None, code=None, summary=None, conclusion=None, closed_at=None)
    )


OUTAGE = ("not-sent", "no-answer", "server-error", "unexpected-answer", "credentials")
"""How a row's last error begins where the other side as a whole may be away, and not this effect be wrong."""


def _waits_out(hud: bool, now: float) -> ColumnElement[bool]:
    """Effects that back off because the other side (the dashboard, else GitHub) was away. What is under way has no
    error."""
    side = outbox.c.kind.in_(DASHBOARD) if hud else outbox.c.kind.not_in(DASHBOARD)
    away = or_(*(outbox.c.last_error.startswith(f"{code}:") for code in OUTAGE))
    return and_(outbox.c.state == "due", outbox.c.not_before > now, side, away)


def any_waits_out(conn: Connection, hud: bool, now: float) -> bool:
    return conn.execute(select(outbox.c.id).where(_waits_out(hud, now)).limit(1)).first() is not None


def probe(conn: Connection, hud: bool, now: float) -> int | None:
    """Has one of the effects that wait out an outage sent now, one that was tried least; -> its id. None: none
    waits."""
    waiting = select(outbox.c.id).where(_waits_out(hud, now)).order_by(outbox.c.attempts, outbox.c.id).limit(1)
    found = conn.execute(waiting).scalar_one_or_none()
    if found is not None:
        conn.execute(update(outbox).where(outbox.c.id == found).values(due_at=now, not_before=now))
    return found


def outage_over(conn: Connection, hud: bool, now: float) -> int:
    """Has all effects that wait out an outage sent now; -> how many."""
    return conn.execute(update(outbox).where(_waits_out(hud, now)).values(due_at=now, not_before=now)).rowcount
