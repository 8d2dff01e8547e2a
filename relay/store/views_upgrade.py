"""What the pages of upgrades show: the list with its trend, one pair with its burn-down, two nights that are not
neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, func, select

from relay.errors import NotFound
from relay.store import upgrades
from relay.store.schema import result, upgrade

POINTS = 60
PER_PAGE = 100
_SHOWN = ("kind", "device", "ref", "night", "old", "new", "old_sha", "new_sha", "state", "good", "code", "summary")
_TIMES = ("created_at", "compared_at", "closed_at")


def trend(conn: Connection, device: str) -> dict[str, Any]:
    """Nights and pairs, newest first."""
    rows = upgrades.nights(conn, device)
    return {
        "nights": [{**_head(row), "standings": _standings(conn, row)} for row in rows],
        "releases": [_head(row) for row in upgrades.releases(conn)],
    }


def pair(conn: Connection, name: str, *, kind: str | None, find: str, only: str | None, page: int) -> dict[str, Any]:
    """The upgrade ``from..to``. ``kind``: only changes of it; ``find``: a part of a test's id; ``only``: ``evaluate``,
    ``relevant``, ``left`` (not run yet), or a standing. Raises NotFound with what there is to do."""
    row, value, rows = _of(conn, name)
    outcome = {t["test"]: t for one in rows for t in (one.outcome or {}).get("tests", ())}
    run = row.runs["new"]["run"] if row.runs and row.runs.get("new") else None
    done = upgrades.evaluated(conn, run)
    changes = [_change(change, outcome, done) for change in value["changes"]]
    relevant = [c for c in changes if c["relevant"]]
    shown = [c for c in changes if _passes(c, kind, find, only)]
    pages = max(1, -(-len(shown) // PER_PAGE))
    page = min(page, pages)
    return {
        "pair": name,
        **_head(row),
        "summary": row.summary if len(rows) == 1 else f"{len(rows)} nights put together; the newest: {row.summary}",
        "runs": row.runs,
        "standings": (row.outcome or {}).get("counts"),
        "report": {k: v for k, v in value.items() if k not in ("changes", "plan", "entries")},
        "entries": len(value["entries"]),
        "progress": {
            "evaluate": value["evaluate"],
            "relevant": len(relevant),
            "planned": value["planned"],
            "evaluated": sum(c["done"] for c in relevant),
            "left": sum(not c["done"] for c in relevant),
        },
        "burn_down": _burn_down(conn, run, len(relevant)),
        "filter": {"kind": kind, "find": find or None, "only": only},
        "matching": len(shown),
        "page": page,
        "pages": pages,
        "changes": shown[(page - 1) * PER_PAGE : page * PER_PAGE],
    }


def report(conn: Connection, name: str) -> dict[str, Any]:
    """The whole report of a pair, for Markdown."""
    return _of(conn, name)[1]


def _of(conn: Connection, name: str) -> tuple[Row[Any], dict[str, Any], Sequence[Row[Any]]]:
    old, dots, new = name.partition("..")
    if not dots or not old or not new:
        raise NotFound(f"{name!r} is no pair", "the address is /upgrade/ and from..to")
    row = upgrades.of_pair(conn, old, new)
    if row is not None:
        value = upgrades.unpack(row.report)
        if value is None:
            raise NotFound(f"{name} is not compared yet: {row.error or row.summary or row.state}", "it is in the list")
        return row, value, [row]
    rows = _between(conn, old, new)
    if not rows:
        raise NotFound(
            f"nobody compared {old} with {new}", f"relay upgrade --from {old} --to {new} --run-on relay.toml"
        )
    return rows[-1], _merged(rows, old), rows


def _between(conn: Connection, old: str, new: str) -> list[Row[Any]]:
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


def _merged(rows: Sequence[Row[Any]], old: str) -> dict[str, Any]:
    """Nights in a row as one: of each test the last change, what was new stays so, what came and went is left out."""
    values = [value for row in rows if (value := upgrades.unpack(row.report)) is not None]
    changes: dict[str, dict[str, Any]] = {}
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


def _change(change: dict[str, Any], outcome: dict[str, Any], done: set[str]) -> dict[str, Any]:
    stood = outcome.get(change["test"])
    ran = change["test"] in done
    return {
        **change,
        "done": ran,
        "standing": stood["standing"] if stood is not None else ("passes" if ran and outcome else None),
        "message": stood["message"] if stood is not None else "",
    }


def _passes(change: dict[str, Any], kind: str | None, find: str, only: str | None) -> bool:
    if kind is not None and kind not in (change["kind"], change["content"]):
        return False
    if find and find.casefold() not in change["test"].casefold():
        return False
    if only in ("evaluate", "relevant"):
        return bool(change[only])
    if only == "left":
        return bool(change["relevant"] and not change["done"])
    return only is None or bool(change["standing"] == only)


def _burn_down(conn: Connection, run: str | None, relevant: int) -> list[dict[str, Any]]:
    """Times (epoch) at which relevant tests had their first result, and how many were left then."""
    if run is None:
        return []
    first = select(func.min(result.c.recorded_at)).where(result.c.dispatch_id == run).group_by(result.c.test)
    times = sorted(conn.execute(first).scalars())
    step = max(1, len(times) // POINTS)
    points = [{"at": at, "left": relevant - n} for n, at in enumerate(times, 1) if n % step == 0 or n == len(times)]
    return [{"at": times[0], "left": relevant}, *points] if times else []
