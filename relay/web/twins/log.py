"""Twin of /run/{id}/log/{shard}."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from relay.web.twins.parts import Part, RunId

Byte = Annotated[int, Field(ge=0, description="A byte of the log, counted from 0.")]


class LogRun(Part):
    id: RunId
    downstream: str
    pr_number: int | None
    upstream: str
    event: str


class LogShard(Part):
    id: str
    side: Annotated[str, Field(description="head, base, again, base-again, trace.")]
    index: int
    state: str
    worker: str | None


class Failure(Part):
    """Where in the log a failing variant stands."""

    test: str
    variant: str
    outcome: str
    begin: Byte
    end: Byte | None


class Searched(Part):
    hit: bool
    until: Annotated[int, Field(description="The byte up to which was looked.")]
    more: Annotated[bool, Field(description="There is more of the log behind it.")]


class Line(Part):
    at: Annotated[int, Field(description="The byte at which it begins.")]
    text: Annotated[str, Field(description="Without the sequences that colour a terminal.")]


class LogWindow(Part):
    """/run/{id}/log/{shard}: a window of a shard's log, and where its failures are."""

    run: LogRun
    shard: LogShard
    lease: int
    size: Annotated[int, Field(description="Bytes of the whole log.")]
    variants: int
    failures: list[Failure]
    at: Byte
    begin: Byte
    end: Byte
    find: str | None
    failure: Annotated[int | None, Field(description="Which of the failures `at` is in, from 0; null: none.")]
    searched: Searched | None
    earlier: Annotated[int | None, Field(description="at= of the window before; null: this is the first.")]
    later: Annotated[int | None, Field(description="at= of the window after; null: this is the last.")]
    lines: list[Line]
