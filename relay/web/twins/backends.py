"""Twins of /crcr and /crcr/{owner}/{repo}."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from relay.web.twins.parts import At, Fails, Loose, Mark, Part, Standing, Streak, Tally


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
    fails: Fails


class Backends(Part):
    """/crcr: backends with pass rate (newest attempts, without superseded ones), times and readiness."""

    now: At
    days: int
    event: str | None
    newest: Annotated[int, Field(description="So many of the newest runs are looked at, at most.")]
    known: Annotated[int, Field(description="Backends that reported in this time, before find, level and only.")]
    failing: Annotated[int, Field(description="So many of them fail.")]
    backends: list[BackendRow]


class Cell(Part):
    """Of a grid grouped by workflow it says the worst of ``jobs`` jobs, of which ``passed`` passed."""

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
    jobs: int = 1
    passed: int | None = None


class GridRow(Part):
    sha: str | None
    pr: int | None
    upstream: str | None
    event: str | None
    at: At
    run: Annotated[str | None, Field(description="The run's id; null: another relay's.")]
    title: Annotated[str | None, Field(description="The pull request's.")]
    summary: Annotated[str | None, Field(description="How our run of it ended, in a sentence.")]
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
    marks: list[Mark]
    streak: Streak | None
    fails: Fails
    asked: Annotated[list[Loose], Field(description="What the next level asks, a line each.")]
    kept: Annotated[list[Loose], Field(description="What its own level keeps.")]
