"""Twins of /, /crcr, /pr, /run, /test, /quality and /upgrade."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from relay.web.twins.parts import (
    At,
    Brief,
    Counts,
    Effect,
    EffectTally,
    Evidence,
    Job,
    Mark,
    Part,
    Quarantined,
    Queue,
    RunId,
    Seconds,
    Shard,
    Standing,
    Tally,
    Worker,
)

Left = Annotated[float | None, Field(description="Seconds until it is done, estimated; null: nobody can tell.")]
Progress = Annotated[float, Field(ge=0, le=1, description="0 to 1.")]
Loose = dict[str, Any]


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


class Spark(Part):
    good: int
    bad: int


class BackendRow(Part):
    repo: str
    level: str | None
    total: int
    open: int
    conclusions: Tally
    last_at: At | None
    spark: list[Spark]
    pass_rate: float | None
    mean_s: float | None
    mean_queue_s: float | None
    standing: Standing | None
    marks: list[Mark]


class Backends(Part):
    """/crcr: backends with pass rate (newest attempts, without superseded ones), times and readiness."""

    now: At
    days: int
    event: str | None
    newest: Annotated[int, Field(description="So many of the newest runs are looked at, at most.")]
    backends: list[BackendRow]


class Cell(Part):
    workflow: str
    job: str
    status: str
    conclusion: str | None
    attempt: int
    url: str | None
    queue_s: float | None
    run_s: float | None
    run: str
    at: At


class GridRow(Part):
    sha: str
    pr: int | None
    upstream: str | None
    event: str | None
    at: At
    run: str
    jobs: Annotated[dict[str, Cell], Field(description="By workflow / job.")]


class BackendPage(Part):
    """/crcr/{owner}/{repo}: commits by jobs, times, readiness."""

    now: At
    days: int
    event: str | None
    repo: str
    pass_rate: float | None
    conclusions: Tally
    jobs: list[str]
    pins: list[Any]
    commits: list[GridRow]
    times: list[Loose]
    standing: Standing | None
    asked: list[Loose]


class Key(Part):
    key: str
    outcome: str
    log: Any = None


class CauseTest(Part):
    test: str
    variants: int
    keys: list[Key]


class PullCause(Part):
    kind: Annotated[str, Field(description="regression, pre-existing, flaky, infrastructure, …")]
    message: str
    changes: list[str]
    why_selected: list[str]
    codes: list[str]
    variants: int
    tests: list[CauseTest]
    test_count: int


class Cause(PullCause):
    base: Tally


class PullCauses(Part):
    total: int
    groups: list[PullCause]
    more: int


class PullRun(Brief):
    counts: Counts
    shards: list[Shard]
    jobs: list[Job]
    failures: PullCauses
    base: Tally
    sentence: str
    progress: Progress | None
    left_s: Left


class OlderCommit(Part):
    head_sha: str
    dispatches: list[Brief]


class Pull(Part):
    """/pr/{number}: all backends on the newest commit, the worst first; older commits."""

    sentence: str
    now: At
    pr: int
    upstream: str
    title: str | None
    author: str | None
    head_sha: str
    open: bool
    dispatches: list[PullRun]
    older: list[OlderCommit]


class PathReason(Part):
    path: str
    reason: str


class RunPlan(Part):
    runtime: Loose
    partial: bool
    not_exercised: list[PathReason]
    counts: Loose
    timings: dict[str, float]
    warnings: list[str]


class Causes(Part):
    total: int
    groups: list[Cause]


class Failing(Part):
    id: int
    test: str
    variant: str
    outcome: str
    message: str | None


class NotExercised(Part):
    total: int
    rows: list[PathReason]


class RunShard(Shard):
    progress: Progress


class RunEffect(Effect):
    html_url: str | None = None


class LeftOut(Part):
    total: int
    rows: list[Loose]


class ResultRow(Part):
    id: int
    test: str
    variant: str
    op: str | None
    dtype: str | None
    mode: str
    outcome: str
    reason: str | None
    seconds: Seconds
    kernels: int | None
    modelled_us: Annotated[float | None, Field(description="Device time as modelled, microseconds: an estimate.")]
    meter: Loose | None
    message: str | None
    shard_id: str
    fence: int
    log_begin: int | None
    log_end: int | None
    log_tail: str | None


class Results(Part):
    side: str
    outcome: str | None
    page: int
    pages: int
    per: int
    total: int
    rows: list[ResultRow]


class Device(Part):
    variants: int
    modelled_us: float | None
    kernels: int | None
    bytes: float | None
    sticks: float | None
    transfer_bytes: float | None
    by_operator: list[Loose]
    engagement: list[Loose]


class Decision(Part):
    id: int
    stage: str
    subject: str
    verdict: str
    code: str
    reason: str
    evidence: list[Evidence]
    confidence: Annotated[float, Field(ge=0, le=1)]
    by: str


class Decisions(Part):
    stage: str | None
    counts: Tally
    page: int
    pages: int
    per: int
    total: int
    rows: list[Decision]


class Agents(Part):
    total: int
    usd: float
    tokens: int
    seconds: float
    in_force: bool
    rows: list[Loose]


class RunCounts(Part):
    planned: int | None
    variants_done: int
    failing: int


class Stage(Part):
    name: str
    asks: str
    state: str
    seconds: float | None
    facts: list[str]


class Run(Part):
    """/run/{id}: verdict, causes, stages, shards, results, decisions, device time, agents."""

    now: At
    run: Brief
    open: bool
    plan: RunPlan | None
    outcomes: Annotated[dict[str, Tally], Field(description="By side.")]
    verdict: Annotated[Loose | None, Field(description="As the run ended with it; empty before.")]
    causes: Causes
    failing: list[Failing]
    not_exercised: NotExercised
    shards: list[RunShard]
    jobs: list[Job]
    effects: list[RunEffect]
    provenance: Loose | None
    left_out: LeftOut
    results: Results
    device: Device
    decisions: Decisions
    agents: Agents
    sentence: str
    counts: RunCounts
    progress: Progress | None
    left_s: Left
    stages: list[Stage]


class TestDecision(Part):
    stage: str
    verdict: str
    code: str
    reason: str
    evidence: list[Evidence]
    confidence: float
    by: str


class TestRun(Part):
    run: Brief
    outcomes: dict[str, Tally]
    variants: int
    failing: int
    seconds: float | None
    kernels: int | None
    decisions: list[TestDecision]


class Flake(Part):
    """How often it answers differently on the same commit, with its interval."""

    runs: int
    failures: int
    pairs: int
    mixed: int
    rate: float | None
    low: float | None
    high: float | None


class TestProposal(Part):
    id: int
    device: str
    kind: str
    reason: str
    issue: str
    updated_at: At


class Configured(Part):
    folder: str
    problem: str
    groups: list[Loose]
    more: int


class Test(Part):
    """/test/{test}: what it did in which run, and why it was selected or skipped."""

    now: At
    test: str
    results_looked_at: int
    truncated: bool
    runs: list[TestRun]
    flake: Flake
    quarantine: list[Quarantined]
    proposals: list[TestProposal]
    configured: Configured


class Recall(Part):
    runs: int
    selected: int
    drawn: int
    missed: int
    estimate: float | None
    low: float | None
    high: float | None
    confidence: float


class Quality(Part):
    """/quality: what selection misses, rankers on trial, proposals, quarantine, searches."""

    now: At
    sentence: str
    runs: int
    recall: Recall
    in_force: str
    on_trial: list[Loose]
    replay_problem: str
    proposals: list[Loose]
    quarantine: list[Loose]
    bisections: list[Loose]


class Upgrades(Part):
    """/upgrade: nights of an upstream branch and pairs of releases."""

    now: At
    ref: str
    device: str
    nights: list[Loose]
    releases: list[Loose]


class OneAgentRun(Agents):
    """/run/{id}/agents.json: what models were asked about a run, word for word."""


RunPage = Run
"""For OpenAPI's names."""
__all__ = ["BackendPage", "Backends", "OneAgentRun", "Pull", "Quality", "Run", "RunId", "Status", "Test", "Upgrades"]
