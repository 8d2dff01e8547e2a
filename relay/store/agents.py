"""Records of what agents were asked and said. Transcripts are compressed, and forgotten after a while."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from relay.store.schema import agent_run
from selector.agents.records import Record, to_values
from selector.model import Stage

LINES = 500
"""lines of one record that are kept; a sheet has at most 60"""


def add(
    conn: Connection, records: Sequence[Record], *, dispatch_id: str | None, device: str, in_force: bool, now: float
) -> None:
    rows = [
        {
            "dispatch_id": dispatch_id,
            "device": device,
            "stage": one.stage.value,
            "agent": one.agent,
            "model": one.model[:255],
            "prompt_version": one.prompt_version,
            "abilities": one.abilities,
            "in_force": in_force,
            "code": one.code,
            "reason": one.reason,
            "steps": one.used.steps,
            "tokens_read": one.used.read,
            "tokens_written": one.used.written,
            "usd": one.used.usd,
            "seconds": one.used.seconds,
            "taken": to_values(one.taken[:LINES]),
            "refused": to_values(one.refused[:LINES]),
            "transcript": pack(one.transcript),
            "created_at": now,
        }
        for one in records
    ]
    if rows:
        conn.execute(insert(agent_run), rows)


def drop(conn: Connection, dispatch_id: str, stages: Sequence[Stage]) -> None:
    """Forgets what an earlier, interrupted selection of the same run left."""
    conn.execute(
        delete(agent_run).where(
            agent_run.c.dispatch_id == dispatch_id, agent_run.c.stage.in_([s.value for s in stages])
        )
    )


def purge(conn: Connection, before: float, most: int) -> int:
    """Forgets at most ``most`` records from before a time; -> how many."""
    old = select(agent_run.c.id).where(agent_run.c.created_at < before).order_by(agent_run.c.created_at).limit(most)
    return conn.execute(delete(agent_run).where(agent_run.c.id.in_(old))).rowcount


def pack(transcript: Sequence[dict[str, str]]) -> bytes:
    return zlib.compress(json.dumps(list(transcript), ensure_ascii=False).encode("utf-8", "replace"))


def unpack(data: bytes) -> list[dict[str, Any]]:
    """What ``pack`` made; at most a few hundred kilobytes (``selector.agents.records.TRANSCRIPT``)."""
    found: list[dict[str, Any]] = json.loads(zlib.decompress(data))
    return found
