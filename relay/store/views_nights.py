"""Nights in a row put together as one pair: what nobody compared as such, and the reports of its nights tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, select

from relay.store import upgrades
from relay.store.schema import upgrade
from relay.store.upgrade_changes import Wanted

Map = dict[str, Any]


def between(conn: Connection, old: str, new: str) -> list[Row[Any]]:
    """The compared nights after ``old`` up to ``new`` (days), oldest first."""
    return list(
        conn.execute(
            select(upgrade)
            .where(
                upgrade.c.kind == "nightly",
                upgrade.c.night > old,
                upgrade.c.night <= new,
                upgrade.c.report.is_not(None),
                select(upgrade.c.id).where(upgrade.c.night == old, upgrade.c.kind == "nightly").exists(),
            )
            .order_by(upgrade.c.night)
        )
    )


def merged(rows: Sequence[Row[Any]], old: str) -> Map:
    """Nights in a row as one: of each test the last change, what was new stays so, what came and went is left out."""
    values = [value for row in rows if (value := upgrades.unpack(row.report)) is not None]
    changes: dict[str, Map] = {}
    for value in values:
        for change in value["changes"]:
            before = changes.pop(change["was"] or change["test"], None)
            if before is not None and before["kind"] == "new":
                if change["kind"] == "gone":
                    continue
                change = {**change, "kind": "new", "content": "new", "was": None, "evaluate": True}
            changes[change["test"]] = change
    last = values[-1]
    kinds = dict.fromkeys(last["kinds"], 0)
    for change in changes.values():
        kinds[change["kind"]] += 1
    evaluate = sum(change["evaluate"] for change in changes.values())
    kinds["unchanged"] = last["total"]["to"] - sum(n for kind, n in kinds.items() if kind not in ("gone", "unchanged"))
    return {
        **last,
        "from": old,
        "total": {"from": values[0]["total"]["from"], "to": last["total"]["to"]},
        "kinds": kinds,
        "changes": [changes[test] for test in sorted(changes)],
        "evaluate": evaluate,
        "relevant": sum(change["relevant"] for change in changes.values()),
        "carried": last["total"]["to"] - evaluate,
    }


def with_standings(changes: Sequence[Map], rows: Sequence[Row[Any]], done: set[str]) -> list[Map]:
    """Changes with where their tests stand: by the newest night that says it."""
    outcome = {test["test"]: test for row in rows for test in (row.outcome or {}).get("tests", ())}
    return [_change(change, outcome, done) for change in changes]


def _change(change: Map, outcome: Map, done: set[str]) -> Map:
    stood = outcome.get(change["test"])
    ran = change["test"] in done
    return {
        **change,
        "done": ran,
        "standing": stood["standing"] if stood is not None else ("passes" if ran and outcome else None),
        "message": stood["message"] if stood is not None else "",
    }


def passes(change: Map, wanted: Wanted) -> bool:
    """As the database has it for one pair (``relay.store.upgrade_changes``)."""
    if wanted.kind is not None and wanted.kind not in (change["kind"], change["content"]):
        return False
    if wanted.find and wanted.find.casefold() not in change["test"].casefold():
        return False
    if wanted.only in ("evaluate", "relevant"):
        return bool(change[wanted.only])
    if wanted.only == "left":
        return bool(change["relevant"] and not change["done"])
    return wanted.only is None or bool(change["standing"] == wanted.only)
