"""Twins of /crcr and /crcr/{owner}/{repo}."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from relay.web.twins.parts import At, Loose, Mark, Part, Standing, Streak, Tally


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
    streak: Streak | None


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
