"""Nights of upstream and a pair of releases, as a busy season leaves them, for the pages: the same for the same tests.
Words are invented; nothing in it is a measurement."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Engine, bindparam, update

from relay.store import upgrade_changes, upgrades
from relay.store.schema import upgrade, upgrade_change
from selector.discover.diff.compare import KINDS

DAY = 86400.0
CHANGED = ("body", "decorator", "helper", "new", "opinfo", "renamed")
STANDINGS = ("passes", "passes", "passes", "passes", "fails-on-both", "newcomer-fails", "regression")


SIDES = tuple(hashlib.sha1(name, usedforsecurity=False).hexdigest() for name in (b"v2.13.0", b"v2.14.0"))
PAIR = f"/upgrade/{SIDES[0]}..{SIDES[1]}"


def seed(engine: Engine, tests: Sequence[str], now: float, *, nights: int, of_release: int) -> str:
    """``nights`` nights that end today, each of a few changed tests, and one pair of releases that changed
    ``of_release`` of ``tests``, half of them evaluated. -> the address of the pair's page."""
    shas = [hashlib.sha1(f"night {n}".encode(), usedforsecurity=False).hexdigest() for n in range(nights + 1)]
    with engine.begin() as conn:
        for n in range(nights):
            at = now - (nights - n) * DAY
            day = time.strftime("%Y-%m-%d", time.gmtime(at))
            some = [tests[(7 * n + 3 * k) % len(tests)] for k in range(12 + 9 * (n % 7))]
            bad = n % 9 == 4
            asked = upgrades.ask(conn, kind="nightly", device="spyre", ref="nightly", night=day, new=day, now=at)
            assert asked is not None
            _store(conn, asked, at, shas[n], shas[n + 1], sorted(set(some)), done=1.0, bad=bad)
        old, new = SIDES
        asked = upgrades.ask(conn, kind="release", device="spyre", old="v2.13.0", new="v2.14.0", now=now - 2 * DAY)
        assert asked is not None
        _store(conn, asked, now - 2 * DAY, old, new, sorted(set(tests))[:of_release], done=0.5, bad=True, names=True)
    return PAIR


def _store(
    conn: Connection, id: str, at: float, old: str, new: str, tests: list[str], *, done: float, bad: bool,
    names: bool = False,
) -> None:  # fmt: skip
    changes = [_change(n, test) for n, test in enumerate(tests)]
    relevant = [change["test"] for change in changes if change["relevant"]]
    ran = relevant[: int(done * len(relevant))]
    standings = {
        test: STANDINGS[n % len(STANDINGS)] if bad or STANDINGS[n % len(STANDINGS)] != "regression" else "passes"
        for n, test in enumerate(ran)
    }
    counts = {word: sum(s == word for s in standings.values()) for word in dict.fromkeys(STANDINGS)}
    kinds = {kind: sum(change["kind"] == kind for change in changes) for kind in KINDS}
    said = f"{counts['regression']} of {len(ran)} tests regressed" if bad else f"{len(ran)} tests hold"
    total = {"from": 24_000, "to": 24_000 + kinds["new"]}
    value = {
        "from": "v2.13.0" if names else old[:10], "to": "v2.14.0" if names else new[:10], "total": total,
        "kinds": kinds, "evaluate": len(changes), "relevant": len(relevant), "carried": 24_000 - len(changes),
        "variants": {"count": 8 * len(relevant), "how": "by rule", "between": None}, "planned": len(relevant),
        "partial": False, "plan": {"shards": [], "ops": {}, "left_out": 0}, "changes": changes, "entries": [],
        "configs": {"edits": [], "by_hand": [], "patch": ""}, "broad": {}, "problems": [], "seconds": {"all": 9.0},
    }  # fmt: skip
    totals = {"evaluate": len(changes), "relevant": len(relevant), "planned": len(relevant)}
    upgrades.claim(conn, id, "seed", at, at + 1)
    upgrades.keep(conn, id, "seed", value, old_sha=old, new_sha=new, compared_at=at + 60,
                  counts={"kinds": kinds, "total": total, "totals": totals, "seconds": 9.0})  # fmt: skip
    upgrade_changes.note_standings(
        conn, id, {t: (s, "" if s == "passes" else "AssertionError: mismatch") for t, s in standings.items()}
    )
    times = [at + 60 + 20.0 * n for n in range(len(ran))]
    if ran:
        mine = (upgrade_change.c.upgrade_id == id, upgrade_change.c.test == bindparam("of"))
        rows = [{"of": test, "at": when} for test, when in zip(ran, times, strict=True)]
        conn.execute(update(upgrade_change).where(*mine).values(done_at=bindparam("at")), rows)
    progress = {"evaluated": len(ran), "burn_down": upgrade_changes.burn_down(times, len(relevant))}
    closed: dict[str, Any] = {"state": "completed", "good": not bad, "summary": said, "closed_at": at + 3600}
    if done < 1:
        closed = {"state": "running"}
    values = {"progress": progress, "outcome": {"counts": counts, "tests": []}, "due_at": None, **closed}
    conn.execute(update(upgrade).where(upgrade.c.id == id).values(**values))


def _change(n: int, test: str) -> dict[str, Any]:
    kind = CHANGED[n % len(CHANGED)]
    return {
        "test": test, "kind": kind, "content": kind, "was": None, "move": None,
        "details": ["the test's own statements differ"], "reason": "the test's own statements differ",
        "evaluate": True, "relevant": n % 3 != 1, "category": "device-generic", "ops": [],
    }  # fmt: skip
