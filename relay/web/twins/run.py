"""Twins of /run/{id} and its agents."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from relay.web.twins.parts import At, Brief, Effect, Evidence, Job, Left, Loose, Part, Progress, Seconds, Shard, Tally
from relay.web.twins.pull import PullCause


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
    groups: list[PullCause]


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
    attempt: Annotated[int, Field(description="Which repeat of a re-run it is, from 0.")]
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
    oncalls: Annotated[list[str], Field(description="Who looks after the backend, as of the event.")]
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


class OneAgentRun(Agents):
    """/run/{id}/agents.json: what models were asked about a run, word for word."""
