"""Runs of trunk's own commits, without any change: what other changes are compared with, and what a search for the
commit that broke something still lacks. Their results are the base side's; they report to nobody."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import structlog
from sqlalchemy import Connection

from relay.services import queueing
from relay.settings import Settings
from relay.store import deliveries, dispatches, shards
from relay.store.trunk import TRUNK_EVENT
from selector.model import Side

log = structlog.get_logger(__name__)
DELIVERY = "trunk-"
DOWNSTREAM = "relay/trunk"
"""No repository: nobody is told of these runs."""


def request(
    conn: Connection,
    settings: Settings,
    specs: Sequence[Mapping[str, Any]],
    commit: str,
    now: float,
    *,
    why: str,
    side: Side = Side.BASE,
    apart_s: float = 0.0,
) -> str | None:
    """Asks for shards (``specs``, as in a lease, with ``est_seconds``) on a commit of trunk, in the caller's
    transaction. ``why`` makes the request one of its kind: None is answered when the same was asked for before.
    ``side``: TRACE where the tests are to be followed; ``apart_s``: seconds between the hand-outs of two shards.
    Returns the run's id. The caller vouches that upstream has merged the commit."""
    device = str(specs[0].get("device") or settings.device)
    delivery = DELIVERY + hashlib.sha256(f"{device}\0{commit}\0{why}".encode()).hexdigest()[:48]
    reason = f"the relay runs trunk's {commit[:10]} by itself: {why}"
    told = deliveries.claim_ignored(
        conn,
        delivery_id=delivery,
        event=TRUNK_EVENT,
        action=None,
        repo=settings.upstream_repo,
        code="trunk-ran",
        reason=reason,
        now=now,
        state="routed",
    )
    if not told:
        return None
    (run,) = dispatches.add(
        conn,
        [
            {
                "delivery_id": delivery,
                "downstream": DOWNSTREAM,
                "downstream_key": DOWNSTREAM,
                "level": "L1",
                "device": device,
                "oncalls": [],
                "executor": "workers",
                "event": TRUNK_EVENT,
                "upstream": settings.upstream_repo,
                "pr_title": reason,
                "author_trusted": True,
                "base_sha": commit,
                "head_sha": commit,
                "compare_sha": commit,
                "base_ref": "main",
                "labels": [],
                "state": "running",
                "selected_at": now,
            }
        ],
        now=now,
    )
    assert run is not None, "the delivery is new"
    wire = [{**spec, "commit": commit, "round": 0} for spec in specs]
    if wire:
        queue = queueing.queue_of(conn, device, wire[0]["runtime"], now)
        shards.add(conn, dispatch_id=run, side=side.value, queue=queue, specs=wire, now=now, apart_s=apart_s)
    log.info("trunk is run", dispatch=run, commit=commit, shards=len(wire), why=why)
    return run
