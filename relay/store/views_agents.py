"""What a run's page says of agents: what was asked, taken and refused, what it cost, and who said what."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, select

from relay.store.agents import unpack
from relay.store.schema import agent_run

ROWS = 200
SHOWN = 20
"""lines of one record that a page shows"""


def of_run(conn: Connection, dispatch_id: str, *, transcripts: bool = False) -> dict[str, Any]:
    """Records in order, with totals. ``transcripts``: with every message, and with all of their lines."""
    rows = conn.execute(
        select(agent_run).where(agent_run.c.dispatch_id == dispatch_id).order_by(agent_run.c.id).limit(ROWS)
    ).all()
    return {
        "total": len(rows),
        "usd": round(sum(row.usd for row in rows), 6),
        "tokens": sum(row.tokens_read + row.tokens_written for row in rows),
        "seconds": round(sum(row.seconds for row in rows), 3),
        "in_force": any(row.in_force for row in rows),
        "rows": [_record(row, transcripts) for row in rows],
    }


def _record(row: Any, transcripts: bool) -> dict[str, Any]:
    most = None if transcripts else SHOWN
    told = {
        name: getattr(row, name)
        for name in (
            "id", "stage", "agent", "model", "prompt_version", "abilities", "in_force", "code", "reason", "steps",
            "tokens_read", "tokens_written", "usd", "seconds", "created_at",
        )
    }  # fmt: skip
    told["taken"] = {"total": len(row.taken), "rows": row.taken[:most]}
    told["refused"] = {"total": len(row.refused), "rows": row.refused[:most]}
    if transcripts:
        told["transcript"] = unpack(row.transcript)
    return told
