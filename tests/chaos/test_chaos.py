"""A sample of the faults in two relays that live on, drawn by a seed: after each, every invariant holds.

``CHAOS_SEED`` draws another sample; ``make chaos`` plays all (docs/chaos.md).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from under_chaos import rounds

ROOT = Path(__file__).resolve().parents[2]
SEED = int(os.environ.get("CHAOS_SEED", "13"))
SAMPLE = {"postgresql": 10, "sqlite": 3}
DELIVERIES = 200
pytestmark = [pytest.mark.chaos, pytest.mark.torch, pytest.mark.broker]

FAULTS = [
    pytest.param(database, fault.name, id=f"{database}-{fault.name}")
    for database, number in SAMPLE.items()
    for fault in rounds.sample(database, SEED, number)
]


def play(folder: Path, *options: str) -> list[dict[str, Any]]:
    """What a run of tests/chaos_run.py found, round by round."""
    report = folder / "report.json"
    command = [sys.executable, str(ROOT / "tests" / "chaos_run.py"), "--seed", str(SEED), "--json", str(report)]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=900, check=False)
    assert report.exists(), f"it came to no end:\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
    print(done.stdout, done.stderr)
    return json.loads(report.read_text())


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Both relays' rounds, by database and fault; each relay is started when its first fault is asked for."""

    class Played(dict[str, dict[str, Any]]):
        def __missing__(self, database: str) -> dict[str, Any]:
            rows = play(tmp_path_factory.mktemp(database), "--database", database, "--faults", str(SAMPLE[database]))
            self[database] = {row["fault"]: row for row in rows}
            return self[database]

    return Played()


@pytest.mark.parametrize(("database", "fault"), FAULTS)
def test_nothing_but_time_is_lost(played: dict[str, dict[str, Any]], database: str, fault: str) -> None:
    row = played[database][fault]
    if row["untried"]:
        pytest.skip(f"NOT RUN: {fault}: {row['untried']}")
    assert {name: found for name, found in row["findings"].items() if found} == {}
    assert row["recovery"] < row["whole"]


def test_deliveries_repeated_and_in_any_order_are_each_done_once(tmp_path: Path) -> None:
    (row,) = play(tmp_path, "--storm", str(DELIVERIES))
    assert {name: found for name, found in row["findings"].items() if found} == {}
