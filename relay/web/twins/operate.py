"""Twins of /queues, /config, /outbox, /audit, /about and /search."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from relay.web.twins.parts import At, Effect, EffectTally, Part, Queue, RunId, Seconds, Tally, Worker


class WaitingShard(Part):
    id: str
    dispatch_id: RunId
    side: str
    index: int
    queue: str
    worker: str | None
    est_seconds: Seconds
    attempts: int
    created_at: At
    started_at: At | None
    lease_until: At | None
    downstream: str
    pr_number: int | None


class Queues(Part):
    """/queues: what waits, where, since when, and whether anybody works on it."""

    sentence: str
    now: At
    queued: int
    leased: int
    oldest_wait_s: Seconds | None
    queues: list[Queue]
    workers: list[Worker]
    waiting: Annotated[list[WaitingShard], Field(description="The 40 that have waited longest.")]
    working: Annotated[list[WaitingShard], Field(description="The 40 that have been with a worker longest.")]
    runs: Annotated[Tally, Field(description="Open runs by state.")]
    deliveries: Annotated[Tally, Field(description="Webhooks that are still to be routed.")]
    effects: list[EffectTally]
    reruns: int


class ConfigEntry(Part):
    what: Annotated[str, Field(description="file, tests or item (an operator, dtype, module).")]
    names: list[str]
    path: str
    mode: str
    place: Annotated[str, Field(description="file.yaml:line")]
    file: str
    reason: str
    issue: str
    evidence: str
    until: Annotated[str, Field(description="A date, a version of upstream, or empty.")]
    owner: Annotated[str | None, Field(description="Who wrote the line, as git says; null: not known.")]
    since: Annotated[float | None, Field(description="When they did, seconds since the epoch.")]
    dead: Annotated[str, Field(description="Why it is proposed to be removed; empty: it is not.")]
    state: Annotated[str, Field(description="dead, expired, expiring (within 30 days), unexplained, holds.")]


class Listed(Part):
    repo: str
    level: str
    device: str | None
    executor: str
    events: list[str]
    oncalls: list[str]
    line: int


class AllowlistInForce(Part):
    source: str
    problem: Annotated[str, Field(description="Why the newest version is not in force; empty: it is.")]
    since: At | None
    entries: list[Listed]


class Config(Part):
    """/config: what the device's configs deviate in, and the allowlist in force."""

    now: At
    sentence: str
    problem: str
    device: str
    folder: str
    states: Tally
    files: Tally
    owners: Tally
    filter: dict[str, str | None]
    total: int
    page: int
    pages: int
    rows: list[ConfigEntry]
    allowlist: AllowlistInForce


class OutboxEffect(Effect):
    stream: Annotated[str, Field(description="Effects of one stream leave in order.")]


class Outbox(Part):
    """/outbox, for operators: effects in one state, the newest first."""

    now: At
    state: str
    kind: str | None
    target: str | None
    page: int
    rows: list[OutboxEffect]
    more: bool
    states: Annotated[dict[str, int | None], Field(description="How many; of those that were sent, null.")]


class Action(Part):
    id: int
    at: At
    actor: Annotated[str, Field(description="A login, relay, or cli: and a user of the machine.")]
    action: Annotated[str, Field(description="noun.verb, as outbox.retry.")]
    target: str
    detail: dict[str, Any]
    dispatch_id: RunId | None


class Audit(Part):
    """/audit, for operators: who did what, the newest first."""

    now: At
    before: int | None
    action: str | None
    actor: str | None
    rows: list[Action]
    next: Annotated[int | None, Field(description="before= of the next page; null: there is none.")]


class About(Part):
    """/about: version and health."""

    now: At
    version: str
    python: str
    database: str
    schema_: Annotated[str | None, Field(alias="schema", description="Revision of the database's schema.")]
    up_s: Seconds
    upstream: str
    device: str
    private: bool
    late_chores: list[str]
    healthy: bool


class Hit(Part):
    kind: Annotated[str, Field(description="run, pull request, commit, run of the commit, backend, test.")]
    href: str
    name: str
    upstream: str | None = None
    number: int | None = None
    title: Annotated[str | None, Field(description="Of a pull request; of a run what it came to.")] = None
    at: At | None = None
    sha: str | None = None
    pr_number: int | None = None
    id: str | None = None
    downstream: str | None = None
    state: str | None = None
    conclusion: str | None = None
    created_at: At | None = None


class Search(Part):
    """/search: what a text may mean."""

    q: str
    now: At
    sentence: str
    hits: list[Hit]
