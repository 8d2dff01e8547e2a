"""Where effects may go now: closed installations and repositories, waits that were asked for, budgets, new names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import structlog
from sqlalchemy import Connection, Engine

from relay.domain.circuit import OPEN, Gate, close, gate, key_of, owner_of
from relay.domain.facts import RepositoryFact
from relay.domain.retry import DASHBOARD, MAX_AGE_S, OTHER_AGE_S, Moved, Reply
from relay.errors import Conflict
from relay.store import circuits, outbox, outbox_ops, repositories
from relay.store.db import reading

log = structlog.get_logger(__name__)
REVIVED = ("not-installed", "installation-suspended", "permission-missing")


def on_github(kind: str) -> bool:
    return kind not in DASHBOARD


def look(conn: Connection, targets: Iterable[str], now: float) -> dict[str, Gate]:
    """What holds for each target (owner/repo) now."""
    wanted = sorted(set(targets))
    owners = [owner_of(target) for target in wanted]
    closed = circuits.of_keys(conn, [*owners, *(target.casefold() for target in wanted)])
    installed = circuits.installed(conn, owners)
    return {target: gate(target, closed, installed.get(owner_of(target)), now) for target in wanted}


def admit(engine: Engine, gates: dict[str, Gate], now: float) -> dict[str, Gate]:
    """The gates with every ``try`` decided: one caller tries, everybody else waits for what comes of it."""
    tries = {one.key for one in gates.values() if one.what == "try"}
    if not tries:
        return gates
    mine: set[str] = set()
    with engine.begin() as conn:
        for key in sorted(tries):
            heard = circuits.installed(conn, [owner_of(key)]).get(owner_of(key))
            won = circuits.probe(conn, key, now)
            if not won and heard is not None:
                won = circuits.probe_early(conn, key, heard.heard_at, now)
            if won:
                mine.add(key)
    decided: dict[str, Gate] = {}
    for target, one in gates.items():
        if one.what != "try":
            decided[target] = one
        elif one.key in mine:
            mine.discard(one.key)
            decided[target] = OPEN
        else:
            decided[target] = Gate("wait", one.key, now + 2.0)
    return decided


def spend(conn: Connection, targets: Sequence[str], now: float, limit: int) -> tuple[list[bool], dict[str, float]]:
    """Which of the effects on ``targets`` (one each) the budgets of their installations allow in this minute, in order;
    -> (allowed, when the next minute begins, by owner)."""
    asked = Counter(owner_of(target) for target in targets)
    left: dict[str, int] = {}
    following: dict[str, float] = {}
    for owner in sorted(asked):  # one order for all, or two senders could wait for each other
        left[owner], following[owner] = circuits.take(conn, owner, asked[owner], now, limit)
    allowed = []
    for target in targets:
        owner = owner_of(target)
        allowed.append(left[owner] > 0)
        left[owner] -= 1
    return allowed, following


def learn(conn: Connection, target: str, code: str, reply: Reply, now: float) -> None:
    """What an effect's outcome says about the place it went to."""
    if code == "sent":
        for key in {owner_of(target), target.casefold()}:
            if circuits.reopen(conn, key, now):
                log.info("sending there again", place=key)
                revive(conn, now)
        return
    place = key_of(code, target)
    if place is None:
        return
    known = circuits.of_keys(conn, [place]).get(place)
    shut = close(known, place, code, reply.detail, now, reply.retry_after)
    circuits.put(conn, shut)
    if known is None:
        log.warning("nothing is sent there for now", place=place, code=code, detail=reply.detail)


def learn_name(conn: Connection, old: str, moved: Moved, now: float) -> None:
    """A repository was renamed or transferred, and no webhook has said so."""
    repositories.hear(conn, RepositoryFact(moved.id, moved.name, old), now)
    log.info("repository renamed", was=old, name=moved.name)


def revive(conn: Connection, now: float) -> int:
    """Has what was parked for want of an installation sent after all, where the place is open again and somebody still
    waits for it. Returns how many."""
    oldest = now - max(*MAX_AGE_S.values(), OTHER_AGE_S)
    parked = outbox_ops.parked_with(conn, REVIVED, oldest)
    gates = look(conn, {row.target for row in parked}, now)
    back = 0
    for row in parked:
        age = now - (row.asked_at or row.created_at)
        if gates[row.target].what not in ("open", "try") or age > MAX_AGE_S.get(row.kind, OTHER_AGE_S):
            continue
        try:
            with conn.begin_nested():
                outbox_ops.retry(conn, row.id, now)
            back += 1
        except Conflict as exc:
            log.info("effect stays parked", id=row.id, reason=exc.message)
    if back:
        log.info("parked effects are due again", number=back)
    return back


def revive_if_any(engine: Engine, now: float) -> int:
    """The same, for who looks every so often; takes no write lock where nothing is to be done."""
    with reading(engine) as conn:
        parked = outbox_ops.parked_with(conn, REVIVED, now - max(*MAX_AGE_S.values(), OTHER_AGE_S), 500)
        gates = look(conn, {row.target for row in parked}, now)
        installed = circuits.installed(conn, {owner_of(row.target) for row in parked})
    ready = [
        row
        for row in parked
        if gates[row.target].what in ("open", "try")
        and (heard := installed.get(owner_of(row.target))) is not None
        and heard.heard_at >= row.not_before
    ]
    if not ready:
        return 0
    with engine.begin() as conn:
        return revive(conn, now)


def look_for_an_end(engine: Engine, memory: dict[str, Any], now: float) -> dict[str, Any]:
    """While effects wait because GitHub or the dashboard was away, one of them tries every time this is called; when it
    arrives the others go at once, however long each would have waited yet. ``memory`` and the answer: the effect that
    tries, by side."""
    tries: dict[str, Any] = {}
    for side, hud in (("github", False), ("dashboard", True)):
        with reading(engine) as conn:
            asked = memory.get(side)
            row = outbox.get(conn, int(asked)) if asked is not None else None
            arrived = row is not None and row.state == "sent"
            if not outbox_ops.any_waits_out(conn, hud, now):
                continue
        with engine.begin() as conn:
            if arrived:
                log.info("outage over", side=side, effects=outbox_ops.outage_over(conn, hud, now))
            else:
                tries[side] = outbox_ops.probe(conn, hud, now)
    return tries
