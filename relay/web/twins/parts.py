"""Parts that several twins have. Times are seconds since the epoch (UTC), durations seconds, shas 40 hex digits."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

At = Annotated[float, Field(description="Seconds since the epoch, UTC.")]
Seconds = Annotated[float, Field(description="A duration in seconds.", ge=0)]
RunId = Annotated[str, Field(description="The run's id; its page is /run/{id}.")]
Tally = Annotated[dict[str, int], Field(description="How many, by word.")]
Left = Annotated[float | None, Field(description="Seconds until it is done, estimated; null: nobody can tell.")]
Progress = Annotated[float, Field(ge=0, le=1, description="0 to 1.")]
Fails = Annotated[bool, Field(description="Its newest run that ended failed, or several in a row did.")]
Loose = dict[str, Any]


class Part(BaseModel):
    """Every field that there is is named: a twin has no others."""

    model_config = ConfigDict(extra="forbid")


class Brief(Part):
    """A run: one upstream event at one backend."""

    id: RunId
    downstream: Annotated[str, Field(description="The backend, owner/repo.")]
    device: str | None
    level: Annotated[str, Field(description="L1 to L4, as of the event.")]
    executor: Annotated[str, Field(description="github: the backend's own CI; workers: this relay's.")]
    event: str
    action: str | None
    upstream: str
    pr_number: int | None
    pr_title: str | None
    author: str | None
    base_sha: str | None
    head_sha: str
    state: Annotated[
        str,
        Field(description="sending, sent, selecting, running, confirming, verifying; completed, superseded, failed."),
    ]
    conclusion: Annotated[str | None, Field(description="success, failure, neutral, …; null: there is none yet.")]
    code: Annotated[str | None, Field(description="Reason code (docs/reason-codes.md).")]
    summary: Annotated[str | None, Field(description="The verdict in one sentence.")]
    error: str | None
    created_at: At
    selected_at: At | None
    started_at: At | None
    first_failed_at: Annotated[
        float | None, Field(description="When the first failure of the change's side was reported; null: none was.")
    ]
    ran_at: At | None
    closed_at: At | None
    url: Annotated[str, Field(description="The permanent address of its page.")]


class Counts(Part):
    planned: Annotated[int | None, Field(description="Tests planned; null before selection.")]
    left_out: int | None
    variants_done: int
    failing: int
    outcomes: Tally


class Shard(Part):
    id: str
    dispatch_id: RunId
    side: Annotated[str, Field(description="head, base, again, base-again, trace.")]
    index: int
    queue: str
    state: Annotated[str, Field(description="queued, leased, done, failed.")]
    worker: str | None
    est_seconds: Seconds
    attempts: int
    fence: Annotated[int, Field(description="Grows with every lease.")]
    lease_until: At | None
    created_at: At
    started_at: At | None
    finished_at: At | None
    error: str | None
    tests: int
    tests_started: int
    variants_done: int
    log_bytes: int


class Job(Part):
    """A job that a backend's own CI reported."""

    id: str
    dispatch_id: RunId
    workflow: str
    name: str
    run_id: str
    attempt: int
    status: str
    conclusion: str | None
    url: str | None
    queued_at: At | None
    started_at: At | None
    completed_at: At | None
    results: Annotated[dict[str, Any] | None, Field(description="passed, failed, skipped, total, as reported.")]
    artifact_url: str | None
    triage: Annotated[dict[str, Any] | None, Field(description="The backend's own triage of its failure.")]


class Effect(Part):
    """Something that leaves the relay; its payload is nobody's to read."""

    id: int
    kind: Annotated[str, Field(description="dispatch, check_run, comment, hud, rerun, …")]
    key: str
    dispatch_id: RunId | None
    target: str
    state: Annotated[str, Field(description="due, sent, parked, dropped.")]
    attempts: int
    ambiguous: Annotated[bool, Field(description="The answer to a send was never seen.")]
    last_status: int | None
    last_error: str | None
    created_at: At
    due_at: At | None
    sent_at: At | None


class EffectTally(Part):
    kind: str
    state: str
    count: int
    oldest_s: Annotated[float | None, Field(description="Seconds that the oldest of them has waited.")]


class Queue(Part):
    queue: str
    queued: int
    leased: int
    oldest_wait_s: Seconds | None
    est_seconds: Annotated[float, Field(description="Work left in it.")]
    alive: Annotated[int, Field(description="Workers of it that were seen lately and take shards.")]
    held: Annotated[list[str], Field(description="Why others that were seen lately take none, one text a worker.")]


class Worker(Part):
    name: str
    device: str
    queue: str
    torch: str
    runtimes: list[str]
    seen_at: At
    alive: bool


class Mark(Part):
    """One run in a row of marks, the oldest first."""

    id: RunId
    word: str
    pr: int | None
    at: At


class Streak(Part):
    """Runs of a backend that failed in a row, up to now."""

    runs: int
    at: Annotated[float, Field(description="When the first of them was asked for.")]
    pulls: Annotated[int, Field(description="Of so many pull requests.")]
    more: Annotated[bool, Field(description="There may be older ones: no known run ended otherwise.")]


class Measured(Part):
    """Two weeks of a backend, against what the next level asks (docs/levels.md)."""

    level: str
    next: str | None
    runs: int
    pass_rate: float | None
    queue_s: float | None
    overrun_rate: float | None
    end_to_end_s: float | None
    timeout_rate: float | None
    missing: list[str]
    failing: list[str]


class Standing(Part):
    downstream_key: str
    downstream: str
    level: str
    proposed: Annotated[str | None, Field(description="A level that is proposed for it.")]
    reason: str | None
    below_since: At | None
    above_since: At | None
    measured: Measured
    updated_at: At


class Evidence(Part):
    kind: str
    detail: str
    path: str | None
    line: int | None
    symbol: str | None


class Quarantined(Part):
    id: int
    device: str
    variant: Annotated[str, Field(description="Empty: every variant of the test.")]
    reason: str
    evidence: str
    issue: str
    until: At
    created_at: At
