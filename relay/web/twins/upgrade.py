"""Twin of /upgrade/{from}..{to}."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from relay.web.twins.parts import At, Loose, Part, Tally


class Sides(Part):
    """A number before and after."""

    before: Annotated[int, Field(alias="from")]
    after: Annotated[int, Field(alias="to")]


class Report(Part):
    """What comparing the two showed; its changes and entries are beside it."""

    old: Annotated[str, Field(alias="from")]
    new: Annotated[str, Field(alias="to")]
    total: Annotated[Sides, Field(description="Tests in each.")]
    kinds: Annotated[Tally, Field(description="Changes by kind.")]
    evaluate: Annotated[int, Field(description="Tests whose own text, helpers or ops changed.")]
    relevant: Annotated[int, Field(description="Of those, the ones that engage the device.")]
    carried: Annotated[int, Field(description="Tests that keep what was decided of them.")]
    variants: Annotated[Loose, Field(description="How many variants they come to, and how that is known.")]
    planned: int
    partial: Annotated[bool, Field(description="The budget left some out.")]
    plan: Loose = Field(default_factory=dict, description="Runtime, shards, ops. Nights put together have none.")
    configs: Annotated[Loose, Field(description="Edits of the device's configs: edits, by_hand, patch.")]
    broad: Annotated[Tally, Field(description="Shared helpers that differ, and how many tests reach them.")]
    problems: Annotated[list[Loose], Field(description="What could not be read: side, file, reason.")]
    seconds: Annotated[dict[str, float], Field(description="By step.")]
    kept: Annotated[bool, Field(description="The comparison was kept from before.")] = False


class Progress(Part):
    evaluate: int
    relevant: int
    planned: int
    evaluated: int
    left: int


class Burnt(Part):
    """A point of the burn-down."""

    at: At
    left: int


class Asked(Part):
    kind: str | None
    find: str | None
    only: str | None


class Change(Part):
    """One test, and what became of it."""

    test: str
    kind: str
    content: str
    was: Annotated[str | None, Field(description="Its name before, where it was renamed.")]
    move: str | None
    details: list[Any]
    reason: str
    evaluate: bool
    relevant: bool
    category: Annotated[str | None, Field(description="Triage's code; null: nothing to evaluate.")]
    ops: list[str]
    done: Annotated[bool, Field(description="It has run on the device.")]
    standing: str | None
    message: str


class UpgradePair(Part):
    """/upgrade/{from}..{to}: one pair with its progress and its changes, a hundred a page."""

    pair: str
    id: str
    kind: Annotated[str, Field(description="nightly, release.")]
    device: str
    ref: str | None
    night: str | None
    old: str | None
    new: str | None
    old_sha: str | None
    new_sha: str | None
    state: str
    good: bool | None
    code: str | None
    summary: str | None
    created_at: At
    compared_at: At | None
    closed_at: At | None
    error: str | None
    kinds: Tally | None
    total: Sides | None
    totals: Tally | None
    seconds: Loose | float | None
    runs: Annotated[Loose | None, Field(description="The runs on both sides.")]
    standings: Tally | None
    worst: Annotated[list[Change], Field(description="The first regressions; empty where changes are filtered.")]
    report: Report
    entries: Annotated[int, Field(description="Entries of op databases that differ.")]
    progress: Progress
    burn_down: list[Burnt]
    filter: Asked
    matching: int
    page: Annotated[int, Field(description="Of the changes, from 1.")]
    pages: int
    changes: list[Change]
