"""How much each queue has to do, for those who add and take away its workers: what waits, and what is being done.

Counted in the database, so it is true whatever the broker has lost or has twice. Work that is being done counts:
whoever scales by what waits alone takes away the workers that are busy.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from relay.queue.names import OUTBOX, ROUTE, SELECT
from relay.store import workers
from relay.store.schema import delivery, dispatch, outbox, shard, upgrade, worker


@dataclass(slots=True)
class Load:
    """``waiting`` and ``running`` pieces of work, ``workers`` that were heard of lately, and ``oldest``: when the piece
    that has waited longest came (seconds since the epoch)."""

    waiting: int = 0
    running: int = 0
    workers: int = 0
    oldest: float | None = None

    @property
    def wanted(self) -> int:
        """Pieces of work that a worker is wanted for."""
        return self.waiting + self.running

    def add(self, number: int, since: float | None) -> None:
        self.waiting += number
        if number and since is not None:
            self.oldest = since if self.oldest is None else min(self.oldest, since)


def load(conn: Connection, now: float) -> dict[str, Load]:
    """Every queue that there is, the relay's own and those of workers."""
    found = {ROUTE: Load(), SELECT: Load(), OUTBOX: Load()}
    number = func.count()
    arrived = select(number, func.min(delivery.c.received_at)).where(delivery.c.state == "received")
    found[ROUTE].add(*conn.execute(arrived).one())
    ended = select(number, func.min(dispatch.c.due_at)).where(dispatch.c.state == "verifying")
    found[ROUTE].add(*conn.execute(ended).one())
    choosing = (
        select(dispatch.c.claim.is_not(None).label("taken"), number, func.min(dispatch.c.created_at))
        .where(dispatch.c.state == "selecting")
        .group_by(dispatch.c.claim.is_not(None))
    )
    for taken, count, since in conn.execute(choosing):
        if taken:
            found[SELECT].running += count
        else:
            found[SELECT].add(count, since)
    found[SELECT].add(*conn.execute(select(number, func.min(upgrade.c.due_at)).where(upgrade.c.due_at <= now)).one())
    leaving = select(number, func.min(outbox.c.created_at)).where(outbox.c.state == "due", outbox.c.not_before <= now)
    found[OUTBOX].add(*conn.execute(leaving).one())
    shards = (
        select(shard.c.queue, shard.c.state, number, func.min(shard.c.created_at))
        .where(shard.c.state.in_(("queued", "leased")), shard.c.created_at <= now)
        .group_by(shard.c.queue, shard.c.state)
    )
    for queue, state, count, since in conn.execute(shards):
        here = found.setdefault(queue, Load())
        if state == "leased":
            here.running += count
        else:
            here.add(count, since)
    alive = select(worker.c.queue, number).where(worker.c.seen_at > now - workers.ALIVE_S).group_by(worker.c.queue)
    for queue, count in conn.execute(alive):
        found.setdefault(queue, Load()).workers = count
    return found
