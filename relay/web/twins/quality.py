"""Twins of /quality and /upgrade."""

from __future__ import annotations

from relay.web.twins.parts import At, Loose, Part


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
    sentence: str
    ref: str
    device: str
    nights: list[Loose]
    releases: list[Loose]
