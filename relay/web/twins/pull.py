"""Twin of /pr/{number}."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from relay.web.twins.parts import At, Brief, Counts, Job, Left, Part, Progress, Shard, Streak, Tally


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
    base: Annotated[Tally, Field(description="How those that are shown ended on the commit it is compared with.")]


class PullCauses(Part):
    total: int
    regressed: Annotated[int, Field(description="Tests that pass without the change and fail with it.")]
    groups: list[PullCause]
    more: int


class PullRun(Brief):
    counts: Counts
    shards: list[Shard]
    jobs: list[Job]
    failures: PullCauses
    base: Tally
    streak: Annotated[
        Streak | None,
        Field(description="Failures in a row of this backend before this run, on other pull requests."),
    ]
    passed_before: Annotated[
        int, Field(description="Runs in a row of this backend's own CI before this one, on other changes, that passed.")
    ]
    oncalls: Annotated[list[str], Field(description="Who looks after the backend, as of the event.")]
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
