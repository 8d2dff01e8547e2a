"""What the pages of upgrades show: the list with its trend, one pair with its burn-down."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, select

from relay.errors import NotFound
from relay.store import upgrade_changes, upgrades, views_nights
from relay.store.schema import upgrade
from relay.store.upgrade_changes import Wanted

PER_PAGE = 100
WORST = Wanted(only="regression")
WORST_SHOWN = 5
"""Regressions that stand above all changes."""
_SHOWN = ("kind", "device", "ref", "night", "old", "new", "old_sha", "new_sha", "state", "good", "code", "summary")
_TIMES = ("created_at", "compared_at", "closed_at")


def trend(conn: Connection, device: str) -> dict[str, Any]:
    """Nights and pairs, newest first."""
    rows = upgrades.nights(conn, device)
    return {
        "nights": [{**_head(row), "standings": _standings(conn, row)} for row in rows],
        "releases": [_head(row) for row in upgrades.releases(conn)],
    }


def pair(conn: Connection, name: str, wanted: Wanted, page: int) -> dict[str, Any]:
    """The upgrade ``from..to``: a screen of its changes (the last one when there are fewer), and what stands above
    them. Raises NotFound with what there is to do."""
    old, new = _names(name)
    row = upgrades.of_pair(conn, old, new)
    if row is None:
        return _put_together(conn, name, wanted, page)
    if row.head is None:
        raise _not_compared(name, row)
    progress = row.progress or {"evaluated": 0, "burn_down": []}
    counts = (row.outcome or {}).get("counts")
    worst = []
    if wanted == Wanted() and counts and counts.get("regression"):
        worst = upgrade_changes.some(conn, row.id, WORST, after=0, limit=WORST_SHOWN)
    matching = row.head["changes"] if wanted == Wanted() else upgrade_changes.matching(conn, row.id, wanted)
    page, pages = _page(page, matching)
    return {
        "pair": name,
        **_head(row),
        "runs": row.runs,
        "standings": counts,
        "worst": worst,
        "report": {key: value for key, value in row.head.items() if key not in ("entries", "changes")},
        "entries": row.head["entries"],
        "progress": _progress(row.head, progress["evaluated"]),
        "burn_down": progress["burn_down"],
        "filter": {"kind": wanted.kind, "find": wanted.find or None, "only": wanted.only},
        "matching": matching,
        "page": page,
        "pages": pages,
        "changes": upgrade_changes.some(conn, row.id, wanted, after=(page - 1) * PER_PAGE, limit=PER_PAGE),
    }


def report(conn: Connection, name: str) -> dict[str, Any]:
    """The whole report of a pair, for Markdown."""
    old, new = _names(name)
    row = upgrades.of_pair(conn, old, new)
    if row is None:
        return _nights(conn, name)[1]
    value = upgrades.report(conn, row.id)
    if value is None:
        raise _not_compared(name, row)
    return value


def _put_together(conn: Connection, name: str, wanted: Wanted, page: int) -> dict[str, Any]:
    """Nights in a row, as one pair. Their run is the newest's."""
    rows, value = _nights(conn, name)
    row = rows[-1]
    run = row.runs["new"]["run"] if row.runs and row.runs.get("new") else None
    changes = views_nights.with_standings(value["changes"], rows, upgrades.evaluated(conn, run))
    shown = [change for change in changes if views_nights.passes(change, wanted)]
    page, pages = _page(page, len(shown))
    done = sum(change["done"] for change in changes if change["relevant"])
    return {
        "pair": name,
        **_head(row),
        "summary": row.summary if len(rows) == 1 else f"{len(rows)} nights put together; the newest: {row.summary}",
        "runs": row.runs,
        "standings": (row.outcome or {}).get("counts"),
        "worst": [one for one in changes if views_nights.passes(one, WORST)][: WORST_SHOWN * (wanted == Wanted())],
        "report": {key: part for key, part in value.items() if key not in ("changes", "plan", "entries")},
        "entries": len(value["entries"]),
        "progress": _progress(value, done),
        "burn_down": [],  # each night has its own
        "filter": {"kind": wanted.kind, "find": wanted.find or None, "only": wanted.only},
        "matching": len(shown),
        "page": page,
        "pages": pages,
        "changes": shown[(page - 1) * PER_PAGE : page * PER_PAGE],
    }


def _nights(conn: Connection, name: str) -> tuple[list[Row[Any]], dict[str, Any]]:
    old, new = _names(name)
    rows = views_nights.between(conn, old, new)
    if not rows:
        raise NotFound(
            f"nobody compared {old} with {new}", f"relay upgrade --from {old} --to {new} --run-on relay.toml"
        )
    return rows, views_nights.merged(rows, old)


def _names(name: str) -> tuple[str, str]:
    old, dots, new = name.partition("..")
    if not dots or not old or not new:
        raise NotFound(f"{name!r} is no pair", "the address is /upgrade/ and from..to")
    return old, new


def _not_compared(name: str, row: Row[Any]) -> NotFound:
    return NotFound(f"{name} is not compared yet: {row.error or row.summary or row.state}", "it is in the list")


def _page(page: int, matching: int) -> tuple[int, int]:
    pages = max(1, -(-matching // PER_PAGE))
    return min(page, pages), pages


def _progress(value: dict[str, Any], evaluated: int) -> dict[str, int]:
    counts = {name: value[name] for name in ("evaluate", "relevant", "planned")}
    return {**counts, "evaluated": evaluated, "left": value["relevant"] - evaluated}


def _head(row: Row[Any]) -> dict[str, Any]:
    counts = row.counts or {}
    return {
        "id": row.id,
        **{name: getattr(row, name) for name in (*_SHOWN, *_TIMES)},
        "error": row.error,
        "kinds": counts.get("kinds"),
        "total": counts.get("total"),
        "totals": counts.get("totals"),
        "seconds": counts.get("seconds"),
        "page": f"/upgrade/{row.old_sha}..{row.new_sha}" if row.old_sha and row.counts else None,
    }


def _standings(conn: Connection, row: Row[Any]) -> dict[str, int] | None:
    outcome = conn.execute(select(upgrade.c.outcome).where(upgrade.c.id == row.id)).scalar_one()
    found: dict[str, int] | None = (outcome or {}).get("counts")
    return found
