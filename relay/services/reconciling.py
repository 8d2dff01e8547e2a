"""What GitHub delivered and never arrived: found in the App's list of webhook deliveries, and asked for again.

GitHub sends a webhook once. Whatever was sent while the relay was away is lost unless somebody asks for it, which is
possible for three days. It comes back under its own delivery id, so what did arrive after all changes nothing.

The look is made every so often, and soon after the relay comes back from where it could take nothing in (``ask_soon``).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import structlog
from sqlalchemy import Engine

from relay.domain.events import worth_asking
from relay.errors import Unavailable
from relay.github.reads import Reader
from relay.services.secret_files import one_of
from relay.settings import Settings
from relay.store import audit, chores, deliveries, redeliveries
from relay.store.db import reading

log = structlog.get_logger(__name__)
CHORE = "reconcile"
SOON_S = 1.0
AGAIN_S = 5.0
"""Where something is missing the next look is so soon: what was asked for may come to nothing as well."""
GRACE_S = 60.0
"""What is younger, and did not fail, may still be on its way."""
OVERLAP_S = 600.0
HORIZON_S = 3 * 86400.0
PAGES = 50
ASKS = 200
BACKOFF_S = (0.0, 4.0, 8.0, 60.0, 600.0, 1800.0, 7200.0, 21600.0)
"""Seconds between the n-th time of asking and the next; then we give up. The first are short: a relay that has just
come back may miss the first answer too."""
REFUSED = (400, 413)
"""We answered, and would answer the same again. A 401 may have been a secret that has been rotated since."""


def possible(settings: Settings) -> bool:
    """Whether there is an App that can ask."""
    return bool(settings.github_app_id and one_of(settings, "github_private_key"))


def ask_soon(engine: Engine, now: float) -> None:
    """The next look is due in a moment: something may have been missed."""
    with engine.begin() as conn:
        chores.make_due(conn, CHORE, now + SOON_S)


def reconcile(
    engine: Engine, reader: Reader, memory: dict[str, Any], now: float, grace_s: float = GRACE_S
) -> dict[str, Any]:
    """Looks at the deliveries since the last look, and asks for those that are not here. -> what the next look should
    know: ``until`` (all before was looked at), and the place to go on from where there was too much for one look.
    Unavailable."""
    until = chores.past(memory, "until", now)
    known_until = until if until is not None else _beginning(engine, now)
    bound = max(known_until - OVERLAP_S, now - HORIZON_S)
    cursor: str | None = memory.get("cursor")
    reach = float(memory.get("reach", now - grace_s)) if cursor else now - grace_s
    done = False
    for _ in range(PAGES):
        try:
            page = reader.hook_deliveries(cursor)
        except Unavailable:
            if cursor is not None and cursor == memory.get("cursor"):
                # perhaps GitHub knows the place no more: the next look begins at the newest again
                return {"until": known_until}
            raise
        rows = [row for row in page.rows if bound <= _time(row) and (_time(row) <= reach or _failed(row))]
        _look(engine, rows)
        cursor = page.cursor
        if cursor is None or (page.rows and _time(page.rows[-1]) < bound):
            done = True
            break
    _ask(engine, reader, now)
    return {"until": reach} if done else {"until": known_until, "cursor": cursor, "reach": reach}


def _failed(row: dict[str, Any]) -> bool:
    """Whether GitHub says that it is over with it and it did not arrive."""
    code, said = row.get("status_code"), str(row.get("status") or "").casefold()
    return isinstance(code, int) and (code >= 300 or (code == 0 and said not in ("", "ok", "pending", "queued")))


def _beginning(engine: Engine, now: float) -> float:
    """Of a new relay, whose App may have served another one before, nothing is asked for that is older than it is."""
    with reading(engine) as conn:
        first = deliveries.first_at(conn)
    return min(now, first) if first is not None else now


def _look(engine: Engine, rows: list[dict[str, Any]]) -> None:
    """Remembers which of ``rows`` never arrived."""
    latest: dict[str, dict[str, Any]] = {}
    for row in rows:
        guid, number = row.get("guid"), row.get("id")
        if isinstance(guid, str) and guid and isinstance(number, int):
            best = latest.get(guid)
            if best is None or number > best["id"]:
                latest[guid] = row
    wanted = {g: r for g, r in latest.items() if worth_asking(str(r.get("event")), r.get("action"))}
    if not wanted:
        return
    with reading(engine) as conn:
        here = deliveries.known(conn, list(wanted))
    missing = {guid: row for guid, row in wanted.items() if guid not in here}
    if not missing:
        return
    with engine.begin() as conn:
        for guid, row in missing.items():
            news = redeliveries.miss(conn, guid, row["id"], str(row.get("event"))[:64])
            if row.get("status_code") in REFUSED:
                redeliveries.give_up(conn, guid, f"refused with {row['status_code']} when it came")
            elif news:
                log.warning("delivery never arrived", delivery=guid, webhook=row.get("event"), said=row.get("status"))


def _ask(engine: Engine, reader: Reader, now: float) -> None:
    with engine.begin() as conn:
        back = redeliveries.settle(conn)
        for guid in redeliveries.exhausted(conn, len(BACKOFF_S)):
            redeliveries.give_up(conn, guid, f"asked for {len(BACKOFF_S)} times")
            log.error("delivery given up", delivery=guid)
        due = redeliveries.due(conn, [now - wait for wait in BACKOFF_S], ASKS)
        if redeliveries.waiting(conn, sum(1 for wait in BACKOFF_S if wait <= GRACE_S)):
            chores.make_due(conn, CHORE, now + AGAIN_S)
    if back:
        log.info("deliveries came back", number=back)
    for row in due:
        there = reader.redeliver(row.hook_delivery_id)
        with engine.begin() as conn:
            redeliveries.asked(conn, row.delivery_id, now)
            detail = {"delivery": row.delivery_id, "attempt": row.attempts + 1, "there": there}
            audit.record(conn, [audit.entry("delivery.ask", "github", now=now, detail=detail)])
            if not there:
                redeliveries.give_up(conn, row.delivery_id, "GitHub does not have it any more")
        log.info("delivery asked for again", delivery=row.delivery_id, attempt=row.attempts + 1, there=there)


def _time(row: dict[str, Any]) -> float:
    try:
        return datetime.fromisoformat(str(row.get("delivered_at"))).timestamp()
    except ValueError:
        return 0.0
