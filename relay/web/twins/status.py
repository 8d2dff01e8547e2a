"""Twin of /."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from relay.web.twins.parts import (
    At,
    Brief,
    Counts,
    Effect,
    EffectTally,
    Fails,
    Loose,
    Mark,
    Part,
    Queue,
    Seconds,
    Streak,
    Tally,
    Worker,
)


class Health(Part):
    name: str
    state: Annotated[str, Field(description="ok, off, warn, bad.")]
    says: str
    do: Annotated[str, Field(description="What to do about it; empty: nothing.")]


class Backend(Part):
    downstream: str
    open: int
    conclusions: Tally
    last: Brief | None
    marks: list[Mark]
    streak: Streak | None
    fails: Fails


class OpenRun(Brief):
    counts: Counts
    sentence: str


class QueueState(Part):
    queued: int
    leased: int
    oldest_wait_s: Seconds | None
    queues: list[Queue]


class OutboxState(Part):
    waiting: int
    parked: int
    oldest_wait_s: Seconds | None
    kinds: list[EffectTally]
    parked_effects: list[Effect]


class Delivery(Part):
    id: str
    event: str
    action: str | None
    repo: str | None
    received_at: At
    state: str
    code: str | None
    reason: str | None


class Status(Part):
    """/: whether the relay and its backends are fine, and what is running."""

    sentence: str
    look: Annotated[str, Field(description="good, warn, bad: the worse of the relay's state and its backends'.")]
    notes: list[str]
    upstream: str
    health: list[Health]
    incidents: Annotated[list[Health], Field(description="The parts that are not well, the worst first.")]
    now: At
    backends: list[Backend]
    runs: list[OpenRun]
    recent: list[Brief]
    queue: QueueState
    workers: list[Worker]
    outbox: OutboxState
    deliveries: list[Delivery]
    chores: list[Loose]
    places: Annotated[list[Loose], Field(description="Where nothing is sent now, and why.")]
    budget: list[Loose]
    nightly: Loose | None
    allowlist: Loose | None
    deadlines: Tally
    unrouted: int
