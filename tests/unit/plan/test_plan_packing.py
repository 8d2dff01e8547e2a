"""Shards of predicted length: how near to the best possible makespan, and what comes first."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from selector.model import Mode, PlannedTest, TestId
from selector.plan.packing import FILE_SECONDS, lower_bound, makespan, pack


def planned(file: str, method: str, seconds: float) -> PlannedTest:
    return PlannedTest(TestId(f"test/{file}.py", "TestX", method), Mode.MANDATORY_SUCCESS, 1.0, seconds, ("code",))


@pytest.mark.parametrize("workers", [2, 5, 8, 20])
@pytest.mark.parametrize("shard_seconds", [0.0, 20.0, 600.0])
def test_makespan_on_upstreams_recorded_times_is_near_the_lower_bound(
    shared: Path, workers: int, shard_seconds: float
) -> None:
    """Every job of upstream's CI whose times are published; a file counts as one test, which is the hardest case."""
    times = json.loads((shared / "data" / "pytorch-stats" / "test-times.json").read_text())
    worst = 0.0
    for job, configs in times.items():
        for config, files in configs.items():
            tests = [planned(name, "test_all", seconds) for name, seconds in files.items() if seconds > 0]
            if len(tests) < 2 * workers:
                continue
            random.Random(f"{job}/{config}").shuffle(tests)
            shards = pack(tests, workers, shard_seconds)
            assert sorted(t for s in shards for t in s.tests) == sorted(t.test for t in tests)
            took = makespan([s.est_seconds for s in shards], workers)
            worst = max(worst, took / lower_bound([t.est_seconds + FILE_SECONDS for t in tests], workers))
    assert worst > 0.999, "something was measured"
    assert worst <= 1.10, worst


def test_the_most_urgent_test_is_in_the_first_shard_and_first_in_it() -> None:
    order = random.Random(7)
    tests = [planned(f"test_{order.randrange(30)}", f"test_{n}", order.expovariate(0.5)) for n in range(300)]
    shards = pack(tests, 4, 20.0)
    assert shards[0].tests[0] == tests[0].test
    alike = [planned(f"test_{n % 30}", f"test_{n}", 1.0) for n in order.sample(range(300), 300)]
    shards = pack(alike, 4, 20.0)
    ranks = [min(alike.index(t) for t in alike if t.test in shard.tests) for shard in shards]
    assert ranks == sorted(ranks)


def test_a_long_file_is_cut_and_a_short_one_is_not() -> None:
    tests = [planned("long", f"test_{n}", 3.0) for n in range(40)] + [
        planned("short", f"test_{n}", 1.0) for n in range(5)
    ]
    shards = pack(tests, 2, 20.0)
    assert len([s for s in shards if any("long" in t.file for t in s.tests)]) >= 6
    assert len([s for s in shards if any("short" in t.file for t in s.tests)]) == 1
    assert max(s.est_seconds for s in shards) <= 25


def test_a_test_that_no_shard_can_hold_begins_early() -> None:
    tests = [planned(f"f{n}", "test_x", 5.0) for n in range(40)] + [planned("giant", "test_x", 90.0)]
    seconds = [s.est_seconds for s in pack(tests, 3, 20.0)]
    assert makespan(seconds, 3) <= 1.10 * lower_bound([t.est_seconds + FILE_SECONDS for t in tests], 3)


def test_nothing_makes_no_shard() -> None:
    assert pack([], 4, 20.0) == ()
