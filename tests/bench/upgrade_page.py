"""The server's time for ``/upgrade/{from}..{to}`` over a great upgrade: its page, JSON twin, filters and last page.

``python tests/bench/upgrade_page.py [--tests 40000] [--rounds 9] [--postgres]`` stores the report of an upgrade that
changed so many tests, all of them for the device, and a run that has results of nine in ten; then asks the relay's own
application, in this process, for each address. Prints a line of JSON: the smallest and the middle wall time of each in
milliseconds, from request to the last byte of the answer, and how long storing took.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[1]))

import private_postgres  # noqa: E402
from fastapi.testclient import TestClient  # noqa: E402
from sqlalchemy import Connection, insert  # noqa: E402

from relay.services import trunk_runs  # noqa: E402
from relay.settings import Settings  # noqa: E402
from relay.store import upgrade_changes, upgrades  # noqa: E402
from relay.store.db import migrate, open_engine  # noqa: E402
from relay.store.schema import result, shard  # noqa: E402
from relay.web.app import create_app  # noqa: E402
from selector.discover.diff.compare import KINDS  # noqa: E402

OLD, NEW = "a" * 40, "b" * 40
CHANGED = ("body", "decorator", "helper", "new", "opinfo", "renamed")
ASKED = {
    "page": "",
    "json": ".json",
    "last page": "?page=100000",
    "kind": "?kind=decorator",
    "find": "?find=TEST_NUMBER_39",
    "left": "?only=left",
    "regressions": "?only=regression",
}


def report(tests: int) -> dict[str, Any]:
    """As ``relay.upgrade_report.to_value`` makes it, of made tests."""
    changes = [
        {
            "test": f"test/part_{n % 90}/test_made_{n // 400}.py::TestMade{n // 40}::test_number_{n}",
            "kind": CHANGED[n % len(CHANGED)],
            "content": CHANGED[n % len(CHANGED)],
            "was": None,
            "move": None,
            "details": ["the test's own statements differ", "its decorators differ: dtypes"],
            "reason": "the test's own statements differ; its decorators differ: dtypes",
            "evaluate": True,
            "relevant": True,
            "category": "device-generic",
            "ops": [],
        }
        for n in range(tests)
    ]
    return {
        "from": "2.13.0",
        "to": "2.14.0",
        "total": {"from": tests, "to": tests},
        "kinds": {kind: sum(c["kind"] == kind for c in changes) for kind in KINDS},
        "evaluate": tests,
        "relevant": tests,
        "carried": 0,
        "variants": {"count": tests, "how": "by rule", "between": None},
        "planned": tests,
        "partial": False,
        "plan": {"shards": [{"tests": [c["test"] for c in changes], "seconds": 1.0}], "ops": {}, "left_out": 0},
        "changes": changes,
        "entries": [],
        "configs": {"edits": [], "by_hand": [], "patch": ""},
        "broad": {},
        "problems": [],
        "seconds": {"all": 1.0},
    }


def ran(conn: Connection, settings: Settings, value: dict[str, Any]) -> str:
    """A run of trunk that has a result of nine tests in ten. -> its id"""
    tests = [change["test"] for change in value["changes"]]
    spec = {"device": "spyre", "commit": NEW, "runtime": {"kind": "tests-only", "torch": "2.13.0", "files": []}}
    spec |= {"capability": "", "configs": [], "tests": tests[:1], "ops": {}, "variants": None, "est_seconds": 1.0}
    run = trunk_runs.request(conn, settings, [spec], NEW, 1.0, why="bench")
    part = conn.execute(shard.select().where(shard.c.dispatch_id == run)).first()
    assert part is not None
    rows = [
        {
            "dispatch_id": run,
            "shard_id": part.id,
            "side": "base",
            "test": test,
            "variant": f"{test.rpartition('::')[2]}_spyre_float32",
            "mode": "mandatory_success",
            "outcome": "passed",
            "seconds": 0.1,
            "fence": 1,
            "recorded_at": 100.0 + n / 100,
        }
        for n, test in enumerate(tests)
        if n % 10
    ]
    conn.execute(insert(result), rows)
    return run


def stored(engine: Any, settings: Settings, tests: int) -> dict[str, float]:
    """Seconds that storing the comparison and the outcome took."""
    value = report(tests)
    with engine.begin() as conn:
        run = ran(conn, settings, value)
        id = upgrades.ask(conn, kind="release", device="spyre", old=OLD, new=NEW, now=1.0)
        assert id is not None
        upgrades.claim(conn, id, "t", 2.0, 3.0)
    began = time.perf_counter()
    with engine.begin() as conn:
        runs = {"old": None, "new": {"run": run, "torch": "2.13.0", "tests": tests}, "notes": []}
        upgrades.keep(conn, id, "t", value, old_sha=OLD, new_sha=NEW, counts={"kinds": value["kinds"]}, runs=runs)
    compared = time.perf_counter() - began
    began = time.perf_counter()
    with engine.begin() as conn:
        upgrade_changes.note_results(conn, id, run)
        standing = {c["test"]: ("regression" if n % 50 == 1 else "passes", "") for n, c in enumerate(value["changes"])}
        upgrade_changes.note_standings(conn, id, standing)
    return {"compared_s": round(compared, 2), "judged_s": round(time.perf_counter() - began, 2)}


@contextlib.contextmanager
def database(postgres: bool, tmp: Path) -> Iterator[str]:
    if not postgres:
        yield f"sqlite:///{tmp / 'relay.sqlite3'}"
        return
    with private_postgres.private_cluster() as cluster:
        yield cluster.new_database()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--postgres", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="relay-page-") as name, database(args.postgres, Path(name)) as url:
        settings = Settings(data_dir=Path(name) / "data", database_url=url)
        engine = open_engine(url)
        migrate(engine)
        took = stored(engine, settings, args.tests)
        answered = {}
        with TestClient(create_app(settings)) as client:
            for what, more in ASKED.items():
                address = f"/upgrade/{OLD}..{NEW}{more}"
                times = []
                for _ in range(args.rounds):
                    began = time.perf_counter()
                    answer = client.get(address)
                    times.append(1000 * (time.perf_counter() - began))
                    answer.raise_for_status()
                answered[what] = [round(min(times), 1), round(statistics.median(times), 1)]
        engine.dispose()
    line = {"tests": args.tests, "database": "postgresql" if args.postgres else "sqlite", **took}
    print(json.dumps({**line, "ms_smallest_and_median": answered}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
