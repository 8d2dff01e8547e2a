"""Quarantine: flaky tests that a person has taken note of, each with a reason, an issue and an end."""

from __future__ import annotations

from datetime import UTC, date, datetime
from datetime import time as clock

from sqlalchemy import Connection, insert, select, update

from relay.errors import BadRequest, NotFound
from relay.store import audit
from relay.store.schema import quarantine
from selector.model import TestId

MOST_DAYS = 90
"""Longer than that nobody looks at it again."""
TEXT_MAX = 2000


def add(
    conn: Connection,
    *,
    device: str,
    test: str,
    variant: str,
    reason: str,
    issue: str,
    until: str,
    evidence: str,
    actor: str,
    now: float,
) -> int:
    """Puts a test, or one variant of it, into quarantine until the end of a day (UTC, ``2026-12-31``); -> its number.
    BadRequest."""
    try:
        TestId.parse(test)
        day = date.fromisoformat(until)
    except ValueError as exc:
        raise BadRequest(str(exc), "test/test_x.py::TestX::test_a, and a day as 2026-12-31") from exc
    end_at = datetime.combine(day, clock.max, UTC).timestamp()
    if not now < end_at < now + (MOST_DAYS + 1) * 86400:
        hint = "quarantine ends; a limit of the device belongs into a config"
        raise BadRequest(f"{until} is not one of the next {MOST_DAYS} days", hint)
    if not reason.strip() or not issue.strip():
        raise BadRequest("a quarantine needs a reason and an issue", "an issue as owner/repo#12 or its address")
    if max(map(len, (reason, issue, evidence))) > TEXT_MAX or len(variant) > 512:
        raise BadRequest(f"a reason, an issue and evidence have at most {TEXT_MAX} characters", "shorten it")
    values = {"device": device, "test": test, "variant": variant, "reason": reason.strip(), "issue": issue.strip()}
    made = conn.execute(
        insert(quarantine).values(**values, evidence=evidence, until=end_at, created_at=now).returning(quarantine.c.id)
    ).scalar_one()
    detail = {"id": made, "test": test, "variant": variant, "reason": reason, "issue": issue, "until": until}
    audit.record(conn, [audit.entry("quarantine.add", test, now=now, actor=actor, detail=detail)])
    return int(made)


def end(conn: Connection, id: int, *, actor: str, now: float) -> str:
    """Takes an entry out before its time; -> the test. NotFound."""
    holds = (quarantine.c.id == id) & quarantine.c.ended_at.is_(None)
    row = conn.execute(select(quarantine).where(holds)).one_or_none()
    if row is None or not conn.execute(update(quarantine).where(holds).values(ended_at=now)).rowcount:
        raise NotFound(f"there is no entry {id} in quarantine", "relay quarantine list shows them")
    detail = {"id": id, "variant": row.variant}
    audit.record(conn, [audit.entry("quarantine.end", row.test, now=now, actor=actor, detail=detail)])
    return str(row.test)
