"""The timeline of a run in each of its states."""

from __future__ import annotations

from typing import Any

import pytest

from relay.web.pages_stages import progress, shard_progress, stages

PLAN = {
    "counts": {"files": 1, "tests": 900, "impacted": 4, "relevant": 3, "irrelevant": 1, "ask": 0, "planned": 3},
    "timings": {"inventory": 0.5, "discover": 0.25, "triage": 0.1, "plan": 0.02},
}
NONE: dict[str, dict[str, int]] = {"head": {}, "base": {}}


def run(state: str, **times: float) -> dict[str, Any]:
    return {"state": state, "started_at": None, "ran_at": None, "closed_at": None, **times}


def shard(state: str, started: int = 0, tests: int = 4, est: float = 10, side: str = "head") -> dict[str, Any]:
    return {"state": state, "tests_started": started, "tests": tests, "est_seconds": est, "side": side}


@pytest.mark.parametrize(
    ("state", "times", "planned", "states"),
    [
        ("selecting", {}, False, "active waiting waiting waiting waiting"),
        ("running", {}, True, "done done done active waiting"),
        ("verifying", {"ran_at": 9.0}, True, "done done done done active"),
        ("confirming", {"ran_at": 9.0}, True, "done done done done active"),
        ("completed", {"ran_at": 9.0, "closed_at": 10.0}, True, "done done done done done"),
        # nothing was planned, so nothing ran, and that is a verdict too
        ("completed", {"closed_at": 10.0}, True, "done done done done done"),
        ("superseded", {"closed_at": 10.0}, False, "stopped stopped stopped stopped stopped"),
        ("superseded", {"closed_at": 10.0}, True, "done done done stopped stopped"),
        ("failed", {"closed_at": 10.0}, False, "stopped stopped stopped stopped stopped"),
    ],
)
def test_where_a_run_stands(state: str, times: dict[str, float], planned: bool, states: str) -> None:
    found = stages(run(state, **times), PLAN if planned else None, NONE, [])
    assert [s["state"] for s in found] == states.split()


def test_counts_and_seconds_of_each_stage() -> None:
    outcomes = {"head": {"passed": 7, "failed": 2, "crashed": 1}, "base": {"passed": 3}}
    shards = [shard("done"), shard("leased"), shard("done", side="base")]
    found = stages(run("completed", started_at=5.0, ran_at=9.0, closed_at=10.5), PLAN, outcomes, shards)
    assert {s["name"]: s["seconds"] for s in found} == {
        "Discover": 0.75, "Triage": 0.1, "Plan": 0.02, "Run": 4.0, "Verify": 1.5,
    }  # fmt: skip
    assert {s["name"]: s["facts"] for s in found} == {
        "Discover": ["1 changed file", "900 tests in the tree", "4 impacted"],
        "Triage": ["3 relevant", "1 irrelevant", "0 unsure"],
        "Plan": ["3 planned"],
        "Run": ["10 variants", "1 of 2 shards", "3 failing"],
        "Verify": ["3 variants again on the base commit"],
    }


def test_progress_is_weighed_by_estimate_and_never_full_before_the_end() -> None:
    assert progress([]) == 0
    assert progress([shard("done", est=30), shard("queued", est=10), shard("done", est=99, side="base")]) == 0.75
    assert shard_progress(shard("leased", started=1)) == 0.25
    assert shard_progress(shard("leased", started=4)) == 0.99
    assert shard_progress(shard("leased", tests=0)) == 0
    assert shard_progress(shard("failed")) == 1
