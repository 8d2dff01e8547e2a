"""What is forgotten by age, a transaction a batch. docs/retention.md is this for people; a test holds every table
against it."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, Table, and_, bindparam, delete, exists, or_, select

from relay.store.schema import (
    agent_run,
    audit,
    bisection,
    circuit,
    delivery,
    dispatch,
    hud_row,
    log_piece,
    log_tail,
    metadata,
    opdb,
    outbox,
    plan,
    proposal,
    pull_request,
    rerun,
    setup,
    shard,
    upgrade,
    upgrade_change,
    upstream_commit,
    web_session,
    worker,
)

ENDED = ("completed", "superseded", "failed")
DETAILS = ("result", "decision", "plan", "shard")
"""What a run leaves beside its own row: large, and of use while somebody looks into it or learns from it."""
FOR_GOOD = {
    "allowlist_version": "one for each change that a person makes",
    "chore": "one for each chore",
    "installation": "one for each installation of the App",
    "level_proposal": "one for each downstream",
    "quarantine": "what people decided",
    "redelivery": "forgotten with the ignored webhooks, once it is settled",
    "repository": "one for each repository that was heard of",
    "repository_name": "one for each name that one had",
    "seen_token": "the pump forgets it when the token has expired",
    "test_name": "one for each test that ever ran",
}
"""Tables whose rows stay, or go elsewhere, and why they do not grow without bound."""
_LOGGED = or_(
    *(
        exists().where(table.c.shard_id == shard.c.id, shard.c.dispatch_id == dispatch.c.id)
        for table in (log_piece, log_tail)
    )
)


def drop_details(conn: Connection, before: float, limit: int) -> int:
    """Forgets plans, decisions, shards and results of up to ``limit`` runs that were begun before then; -> how many
    runs. One whose logs are still stored keeps everything."""
    has = or_(exists().where(shard.c.dispatch_id == dispatch.c.id), exists().where(plan.c.dispatch_id == dispatch.c.id))
    ids = _runs(conn, before, limit, has, ~_LOGGED)
    for table, mine in _owned(ids) if ids else ():
        if table.name in DETAILS:
            conn.execute(delete(table).where(mine))
    return len(ids)


def drop_runs(conn: Connection, before: float, limit: int) -> int:
    """Forgets up to ``limit`` runs that were begun before then, with all that belongs to them; -> how many."""
    unsent = exists().where(outbox.c.dispatch_id == dispatch.c.id, outbox.c.state == "due")
    ids = _runs(conn, before, limit, ~_LOGGED, ~unsent)
    if ids:
        for table, mine in _owned(ids):
            conn.execute(delete(table).where(mine))
        conn.execute(delete(dispatch).where(dispatch.c.id.in_(ids)))
    return len(ids)


def drop_hud_rows(conn: Connection, before: float, limit: int) -> int:
    """Forgets up to ``limit`` of the dashboard's rows from before then; -> how many."""
    return _drop(conn, hud_row, hud_row.c.created_at < before, limit)


def drop_others(conn: Connection, before: float, now: float, limit: int) -> int:
    """Forgets up to ``limit`` rows of each table that no run owns, from before then; -> how many."""
    return sum(_drop(conn, table, old, limit) for table, old in _others(before, now))


def _others(before: float, now: float) -> Sequence[tuple[Table, ColumnElement[bool]]]:
    newer = upgrade.alias("newer")
    is_last_good = ~exists().where(
        newer.c.device == upgrade.c.device,
        newer.c.ref == upgrade.c.ref,
        newer.c.good.is_(True),
        newer.c.night > upgrade.c.night,
    )
    # the next night is compared with the last good one
    night = and_(
        upgrade.c.kind == "nightly", upgrade.c.closed_at < before, ~and_(upgrade.c.good.is_(True), is_last_good)
    )
    return (
        (upgrade_change, upgrade_change.c.upgrade_id.in_(select(upgrade.c.id).where(night))),
        (upgrade, and_(night, ~exists().where(upgrade_change.c.upgrade_id == upgrade.c.id))),
        (outbox, and_(outbox.c.dispatch_id.is_(None), outbox.c.state != "due", outbox.c.created_at < before)),
        (
            delivery,
            and_(
                delivery.c.state != "received",
                delivery.c.received_at < before,
                ~exists().where(dispatch.c.delivery_id == delivery.c.id),
                ~exists().where(rerun.c.delivery_id == delivery.c.id),
            ),
        ),
        (bisection, bisection.c.closed_at < before),
        (proposal, and_(proposal.c.state.in_(("gone", "taken")), proposal.c.updated_at < before)),
        (worker, worker.c.seen_at < before),
        (opdb, and_(opdb.c.stored_at < before, opdb.c.torch.not_in(select(worker.c.torch)))),
        (pull_request, pull_request.c.heard_at < before),
        (upstream_commit, upstream_commit.c.checked_at < before),
        (circuit, and_(circuit.c.changed_at < before, circuit.c.window_at < before, circuit.c.until < now)),
        (agent_run, agent_run.c.created_at < before),
        (audit, audit.c.at < before),
        (setup, setup.c.used_at < before),
        (web_session, web_session.c.expires_at < now),
    )


def _runs(conn: Connection, before: float, limit: int, *more: ColumnElement[bool]) -> list[str]:
    old = (dispatch.c.created_at < before, dispatch.c.state.in_(ENDED))
    query = select(dispatch.c.id).where(*old, *more).order_by(dispatch.c.created_at).limit(limit)
    return list(conn.execute(query).scalars())


def _owned(ids: Sequence[str]) -> list[tuple[Table, ColumnElement[bool]]]:
    """Every table whose rows refer to one of these dispatches, or to what refers to one, those that others refer to
    last; and which rows. Found by the references, so that no table can be left out."""
    owned: dict[str, ColumnElement[bool]] = {dispatch.name: dispatch.c.id.in_(ids)}
    found: list[tuple[Table, ColumnElement[bool]]] = []
    for table in metadata.sorted_tables:
        ways = [
            key.parent.in_(select(key.column).where(owned[key.column.table.name]))
            for key in table.foreign_keys
            if key.column.table.name in owned and key.column.table.name != dispatch.name
        ]
        direct = [key.parent.in_(ids) for key in table.foreign_keys if key.column.table.name == dispatch.name]
        if table.name != dispatch.name and (ways or direct):
            owned[table.name] = or_(*direct, *ways)
            found.append((table, owned[table.name]))
    return found[::-1]


def _drop(conn: Connection, table: Table, old: ColumnElement[bool], limit: int) -> int:
    key = list(table.primary_key.columns)
    rows = conn.execute(select(*key).where(old).limit(limit)).all()
    if rows:
        one = and_(*(column == bindparam(f"key_{column.name}") for column in key))
        values = [{f"key_{column.name}": value for column, value in zip(key, row, strict=True)} for row in rows]
        conn.execute(delete(table).where(one), values)
    return len(rows)
