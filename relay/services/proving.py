"""Keeps with each verdict what it was made of (relay.domain.provenance)."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, select, update

from relay import __version__
from relay.domain import provenance
from relay.store import setups, workers
from relay.store.schema import dispatch, job, shard

VERSIONS = {"relay": __version__, "selector": __version__}
"""They are released together."""


def record(conn: Connection, dispatch_id: str) -> dict[str, Any]:
    """Stores the record of a dispatch that has come to an end, from what is stored of it; -> the record."""
    run = conn.execute(select(dispatch).where(dispatch.c.id == dispatch_id)).one()
    made_of, lab = None, []
    if run.executor == "workers":
        mine = shard.c.dispatch_id == dispatch_id
        # all shards of a run carry the same sheet and configs, which are long
        first = select(shard.c.spec).where(mine).order_by(shard.c.side.desc(), shard.c.index).limit(1)
        made_of = provenance.of_specs(setups.whole(conn, spec) for spec in conn.execute(first).scalars())
        ran = select(shard.c.worker).where(mine, shard.c.worker.is_not(None)).distinct()
        names = set(conn.execute(ran).scalars())
        lab = [{"name": one.name, "torch": one.torch, "info": one.info} for one in workers.named(conn, names)]
    sources = conn.execute(
        select(job.c.source).where(job.c.dispatch_id == dispatch_id, job.c.source.is_not(None)).order_by(job.c.id)
    ).scalars()
    made = provenance.make(
        dict(run._mapping), versions=VERSIONS, made_of=made_of, workers=lab, sources=[one for one in sources if one]
    )
    conn.execute(update(dispatch).where(dispatch.c.id == dispatch_id).values(provenance=made))
    return made
