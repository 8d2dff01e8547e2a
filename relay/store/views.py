"""What the status page and /metrics read; see relay.store.views_parts for the rules that hold here as well."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection, func, select

from relay.store import allowlists, views_backends, views_health
from relay.store.schema import delivery, dispatch, outbox, shard, upgrade, worker
from relay.store.trunk import TRUNK_EVENT
from relay.store.views_parts import BRIEF, CLOSED, EFFECT, brief, counts_of, plain, plain_all
from relay.store.workers import ALIVE_S, held


def status(conn: Connection, *, now: float, base_url: str) -> dict[str, Any]:
    """Everything the status page shows."""
    return {
        "now": now,
        "backends": backends(conn, base_url),
        "runs": runs_open(conn, base_url),
        "recent": runs_closed(conn, base_url),
        "queue": queue_depth(conn, now),
        "workers": workers(conn, now),
        "outbox": outbox_state(conn, now),
        "deliveries": deliveries(conn),
        "chores": views_health.chores(conn, now),
        "places": views_health.places(conn, now),
        "budget": views_health.budget(conn, now),
        "nightly": nightly(conn),
        "allowlist": allowlist(conn),
        "deadlines": views_health.deadlines(conn),
        "unrouted": conn.execute(
            select(func.count()).select_from(delivery).where(delivery.c.state == "received")
        ).scalar_one(),
    }


def backends(conn: Connection, base_url: str, window: int = 2000) -> list[dict[str, Any]]:
    """Downstreams among the newest ``window`` dispatches: their last concluded run, how their runs ended, and the
    newest ones as marks (relay.store.views_backends)."""
    newest = (
        select(dispatch.c.id)
        .where(dispatch.c.event != TRUNK_EVENT)
        .order_by(dispatch.c.created_at.desc())
        .limit(window)
        .subquery()
    )
    tallies = conn.execute(
        select(
            dispatch.c.downstream_key,
            func.max(dispatch.c.downstream).label("downstream"),
            dispatch.c.state,
            dispatch.c.conclusion,
            func.count().label("n"),
        )
        .join(newest, newest.c.id == dispatch.c.id)
        .group_by(dispatch.c.downstream_key, dispatch.c.state, dispatch.c.conclusion)
    )
    found: dict[str, dict[str, Any]] = {}
    for row in tallies:
        entry = found.setdefault(
            row.downstream_key, {"downstream": row.downstream, "open": 0, "conclusions": {}, "last": None, "marks": []}
        )
        if row.state not in CLOSED:
            entry["open"] += row.n
        elif row.conclusion:
            entry["conclusions"][row.conclusion] = entry["conclusions"].get(row.conclusion, 0) + row.n
    ranked = (
        select(
            dispatch.c.id,
            func.row_number()
            .over(partition_by=dispatch.c.downstream_key, order_by=(dispatch.c.closed_at.desc(), dispatch.c.id.desc()))
            .label("place"),
        )
        .join(newest, newest.c.id == dispatch.c.id)
        .where(dispatch.c.conclusion.is_not(None), dispatch.c.closed_at.is_not(None))
        .subquery()
    )
    last = (
        select(*BRIEF, dispatch.c.downstream_key).join(ranked, ranked.c.id == dispatch.c.id).where(ranked.c.place == 1)
    )
    for row in conn.execute(last):
        entry = brief(row, base_url)
        found[entry.pop("downstream_key")]["last"] = entry
    for key, marks in views_backends.marks(conn, newest=window).items():
        if key in found:
            found[key]["marks"] = marks
    return [found[key] for key in sorted(found)]


def runs_open(conn: Connection, base_url: str, limit: int = 50) -> list[dict[str, Any]]:
    rows = conn.execute(
        select(*BRIEF).where(dispatch.c.state.not_in(CLOSED)).order_by(dispatch.c.created_at.desc()).limit(limit)
    ).all()
    runs = [brief(row, base_url) for row in rows]
    counts = counts_of(conn, [run["id"] for run in runs])
    return [{**run, "counts": counts[run["id"]]} for run in runs]


def runs_closed(conn: Connection, base_url: str, limit: int = 10) -> list[dict[str, Any]]:
    rows = conn.execute(
        select(*BRIEF).where(dispatch.c.state.in_(CLOSED)).order_by(dispatch.c.created_at.desc()).limit(limit)
    )
    shown = [brief(row, base_url) for row in rows]
    return sorted(shown, key=lambda run: run["closed_at"] or run["created_at"], reverse=True)


def queue_depth(conn: Connection, now: float) -> dict[str, Any]:
    """Shards that wait for a worker or are with one, and the workers alive that take them, a queue; ``held``: why
    others that are alive take none. Waits are seconds."""
    rows = conn.execute(
        select(
            shard.c.queue,
            shard.c.state,
            func.count().label("n"),
            func.min(shard.c.created_at).label("oldest"),
            func.sum(shard.c.est_seconds).label("est_seconds"),
        )
        .join(dispatch, dispatch.c.id == shard.c.dispatch_id)
        .where(shard.c.state.in_(("queued", "leased")), dispatch.c.state.not_in(CLOSED))
        .group_by(shard.c.queue, shard.c.state)
    )
    queues: dict[str, dict[str, Any]] = {}

    def of(name: str) -> dict[str, Any]:
        empty = {"queued": 0, "leased": 0, "oldest_wait_s": None, "est_seconds": 0.0, "alive": 0}
        return queues.setdefault(name, {"queue": name, **empty, "held": []})

    for row in conn.execute(select(worker.c.queue, worker.c.info).where(worker.c.seen_at > now - ALIVE_S)):
        why = held(row.info)
        of(row.queue)["alive"] += not why
        if why:
            of(row.queue)["held"].append(why)
    for row in rows:
        entry = of(row.queue)
        entry[row.state] = row.n
        entry["est_seconds"] += row.est_seconds
        if row.state == "queued":
            entry["oldest_wait_s"] = round(max(0.0, now - row.oldest), 1)
    waits = [entry["oldest_wait_s"] for entry in queues.values() if entry["oldest_wait_s"] is not None]
    return {
        "queued": sum(entry["queued"] for entry in queues.values()),
        "leased": sum(entry["leased"] for entry in queues.values()),
        "oldest_wait_s": max(waits, default=None),
        "queues": [queues[name] for name in sorted(queues)],
    }


def workers(conn: Connection, now: float, limit: int = 100) -> list[dict[str, Any]]:
    rows = conn.execute(
        select(worker.c.name, worker.c.device, worker.c.queue, worker.c.torch, worker.c.runtimes, worker.c.seen_at)
        .order_by(worker.c.seen_at.desc())
        .limit(limit)
    )
    return [{**plain(row), "alive": row.seen_at > now - ALIVE_S} for row in rows]


def outbox_state(conn: Connection, now: float, limit: int = 20) -> dict[str, Any]:
    """Effects on the outside that wait (state due) or were given up (parked), and the newest parked ones."""
    rows = conn.execute(
        select(outbox.c.kind, outbox.c.state, func.count().label("n"), func.min(outbox.c.created_at).label("oldest"))
        .where(outbox.c.state.in_(("due", "parked")), outbox.c.created_at <= now)
        .group_by(outbox.c.kind, outbox.c.state)
        .order_by(outbox.c.kind, outbox.c.state)
    ).all()
    waiting = [row for row in rows if row.state == "due"]
    parked = conn.execute(select(*EFFECT).where(outbox.c.state == "parked").order_by(outbox.c.id.desc()).limit(limit))
    return {
        "waiting": sum(row.n for row in waiting),
        "parked": sum(row.n for row in rows if row.state == "parked"),
        "oldest_wait_s": round(max(0.0, now - min(row.oldest for row in waiting)), 1) if waiting else None,
        "kinds": [
            {"kind": row.kind, "state": row.state, "count": row.n, "oldest_s": round(max(0.0, now - row.oldest), 1)}
            for row in rows
        ],
        "parked_effects": plain_all(parked),
    }


def nightly(conn: Connection) -> dict[str, Any] | None:
    """The newest night of upstream that was looked at; None: none was."""
    row = conn.execute(
        select(
            upgrade.c.night, upgrade.c.device, upgrade.c.ref, upgrade.c.state, upgrade.c.good, upgrade.c.summary,
            upgrade.c.error, upgrade.c.old_sha, upgrade.c.new_sha, upgrade.c.created_at, upgrade.c.closed_at,
        )
        .where(upgrade.c.kind == "nightly")
        .order_by(upgrade.c.night.desc(), upgrade.c.created_at.desc())
        .limit(1)
    ).one_or_none()  # fmt: skip
    return plain(row) if row is not None else None


def allowlist(conn: Connection) -> dict[str, Any] | None:
    """The version of the allowlist that was put into force last: its digest and when."""
    row = allowlists.newest(conn)
    return {"digest": row.digest, "loaded_at": row.loaded_at} if row is not None else None


def deliveries(conn: Connection, limit: int = 25) -> list[dict[str, Any]]:
    rows = conn.execute(
        select(
            delivery.c.id,
            delivery.c.event,
            delivery.c.action,
            delivery.c.repo,
            delivery.c.received_at,
            delivery.c.state,
            delivery.c.code,
            delivery.c.reason,
        )
        .order_by(delivery.c.received_at.desc())
        .limit(limit)
    )
    return plain_all(rows)


def tallies(conn: Connection) -> dict[str, list[tuple[tuple[str, ...], int]]]:
    """Rows by state, for /metrics: table -> [(label values, count)]. Each is one walk over a narrow index."""

    def tally(*columns: ColumnElement[str]) -> list[tuple[tuple[str, ...], int]]:
        rows = conn.execute(select(*columns, func.count()).group_by(*columns))
        return [(tuple(str(label) for label in row[:-1]), int(row[-1])) for row in rows]

    return {
        "delivery": tally(delivery.c.state),
        "dispatch": tally(dispatch.c.state),
        "shard": tally(shard.c.state),
        "outbox": tally(outbox.c.state, outbox.c.kind),
    }
