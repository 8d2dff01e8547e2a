"""``relay outbox``: what leaves the relay, and what a person may do about it."""

from __future__ import annotations

import getpass
import json
import os
import time
from datetime import UTC, datetime
from typing import Any

import typer
from sqlalchemy import Row

from relay.errors import BadRequest, RelayError
from relay.settings import load
from relay.store import audit, outbox_ops
from relay.store.db import open_migrated, reading

SHOWN = (
    "id", "key", "kind", "stream", "dispatch_id", "job_id", "target", "state", "attempts", "ambiguous", "last_status",
    "last_error", "created_at", "asked_at", "due_at", "sent_at",
)  # fmt: skip


def run_list(
    config: str | None, states: list[str], kind: str | None, target: str | None, limit: int, as_json: bool
) -> int:
    """Prints effects, the oldest first; -> exit code: 1 when there are parked ones among them."""
    unknown = [state for state in states if state not in outbox_ops.STATES]
    if unknown:
        raise BadRequest(f"there is no state {unknown[0]}", f"states are {', '.join(outbox_ops.STATES)}")
    engine = open_migrated(load(config).database)
    with reading(engine) as conn:
        rows = outbox_ops.listed(conn, states=states, kind=kind, target=target, limit=limit)
    engine.dispose()
    if as_json:
        typer.echo(json.dumps([{name: getattr(row, name) for name in SHOWN} for row in rows], indent=2))
    elif not rows:
        typer.echo(f"No effect is {' or '.join(states)}.")
    else:
        for row in rows:
            typer.echo(_line(row))
    return 1 if any(row.state == "parked" for row in rows) else 0


def run_retry(config: str | None, ids: list[int], all_parked: bool, kind: str | None, target: str | None) -> int:
    """Has effects sent again; -> exit code: 1 when one of them could not be."""
    return _each(config, ids, all_parked, kind, target, lambda conn, one, now: outbox_ops.retry(conn, one, now), "due")


def run_drop(config: str | None, ids: list[int], reason: str) -> int:
    """Gives effects up; -> exit code: 1 when one of them could not be."""
    said = f"by hand: {reason}"
    return _each(
        config, ids, False, None, None, lambda conn, one, now: outbox_ops.drop(conn, one, said, now), "dropped", reason
    )


def _each(
    config: str | None,
    ids: list[int],
    all_parked: bool,
    kind: str | None,
    target: str | None,
    act: Any,
    done: str,
    reason: str = "",
) -> int:
    engine = open_migrated(load(config).database)
    if all_parked:
        with reading(engine) as conn:
            rows = outbox_ops.listed(conn, states=["parked"], kind=kind, target=target, limit=10_000)
        ids = [*ids, *(row.id for row in rows)]
    if not ids:
        typer.echo("Nothing to do: no effect was named, or none is parked.")
    failed = 0
    for one in dict.fromkeys(ids):
        try:
            with engine.begin() as conn:
                row = act(conn, one, time.time())
                detail = {"effect": one, "kind": row.kind, **({"reason": reason} if reason else {})}
                verb = "retry" if done == "due" else "drop"
                done_by = audit.entry(f"outbox.{verb}", row.target, now=time.time(), actor=who(), detail=detail)
                audit.record(conn, [done_by])
            typer.echo(f"{one}: {done}: {row.kind} to {row.target}")
        except RelayError as exc:
            failed += 1
            typer.echo(f"{one}: {exc}", err=True)
    engine.dispose()
    return 1 if failed else 0


def who() -> str:
    """The actor of what a command does: the user of this machine."""
    try:
        return f"cli:{getpass.getuser()}"
    except (KeyError, OSError):  # a container's user may have no name
        return f"cli:{os.getuid()}"


def _line(row: Row[Any]) -> str:
    doubt = ", in doubt" if row.ambiguous else ""
    tries = f"{row.attempts} tr{'y' if row.attempts == 1 else 'ies'}{doubt}"
    when = datetime.fromtimestamp(row.created_at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    said = f": {row.last_error}" if row.last_error else ""
    return f"{row.id}  {row.state}  {row.kind} to {row.target}  asked {when}, {tries}{said}"
