"""Twin of /test/{test}."""

from __future__ import annotations

from relay.web.twins.parts import At, Brief, Evidence, Loose, Part, Quarantined, Tally


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
