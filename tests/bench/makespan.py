"""How near shards come to the best that any cut could give, on upstream's recorded times.

``python tests/bench/makespan.py TEST-TIMES.JSON``: each configuration of each job in upstream's table of test times is
cut into shards for 2 to 20 workers; the makespan (who is free takes the next shard) is held against the lower
bound (the whole work over the workers, or the longest test). A file counts as one test, which is the hardest case.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
from pathlib import Path

from selector.model import Mode, PlannedTest, TestId
from selector.plan.packing import FILE_SECONDS, lower_bound, makespan, pack

WORKERS = (2, 5, 8, 20)
SHARD_S = 600.0


def ratios(times: dict[str, dict[str, dict[str, float]]], workers: int, shard_s: float) -> list[float]:
    """Makespan over lower bound of each configuration with at least two files a worker."""
    found = []
    for job, configs in sorted(times.items()):
        for config, files in sorted(configs.items()):
            tests = [
                PlannedTest(
                    TestId(f"test/{name}.py", "TestX", "test_all"), Mode.MANDATORY_SUCCESS, 1.0, seconds, ("c",)
                )
                for name, seconds in files.items()
                if seconds > 0
            ]
            if len(tests) < 2 * workers:
                continue
            random.Random(f"{job}/{config}").shuffle(tests)
            took = makespan([shard.est_seconds for shard in pack(tests, workers, shard_s)], workers)
            found.append(took / lower_bound([test.est_seconds + FILE_SECONDS for test in tests], workers))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("times", type=Path)
    parser.add_argument("--shard-seconds", type=float, default=SHARD_S)
    args = parser.parse_args()
    times = json.loads(args.times.read_text(encoding="utf-8"))
    for workers in WORKERS:
        found = ratios(times, workers, args.shard_seconds)
        print(
            f"{workers:2} workers: {len(found)} configurations, "
            f"makespan over lower bound: median {statistics.median(found):.4f}, worst {max(found):.4f}"
        )


if __name__ == "__main__":
    main()
