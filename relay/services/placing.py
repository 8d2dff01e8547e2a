"""Which worker a shard is for: some must not go back to the worker that failed, some belong into one lab."""

from __future__ import annotations

from sqlalchemy import Connection, update

from relay.errors import Conflict
from relay.store import shards, workers
from relay.store.schema import shard

AGAIN_S = 0.3
"""Until a shard that came to the wrong worker is offered again."""


def misplaced(conn: Connection, shard_id: str, worker: str, now: float) -> Conflict | None:
    """Why ``worker`` is not given the shard while a better one is there; it is then due again at once. NotFound."""
    row = shards.get(conn, shard_id)
    avoid, lab = tuple(row.spec.get("avoid") or ()), row.spec.get("lab")
    if row.state != "queued" or not (worker in avoid or lab):
        return None
    there = workers.alive(conn, str(row.spec.get("device")), now)
    alive = {w.name: w.info.get("lab") for w in there if not workers.held(w.info)}
    better = [name for name, its in alive.items() if name not in avoid and (not lab or its == lab)]
    if not better or worker in better:
        return None
    again = update(shard).where(shard.c.id == shard_id, shard.c.state == "queued")
    conn.execute(again.values(due_at=now + AGAIN_S, attempts=0))
    why = f"lab {lab}" if worker not in avoid else "another worker than the one that failed"
    return Conflict(f"shard {shard_id} is for {why}", "it is offered again")
