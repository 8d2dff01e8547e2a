"""Seeded orders of two jobs' reports with concurrent writers, on SQLite and on PostgreSQL.

    python tests/bench/lifecycle_orders.py [--orders 500] [--database sqlite|postgresql|both]

Prints, for each database, how many orders ended right, of each kind, and the time; exit code 1 when any did not.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lifecycle_orders import WRITERS, order_of, play, problems
from private_postgres import private_cluster
from sqlalchemy import Engine

from relay.store.db import migrate, open_engine

KINDS = ("whole", "with duplicates", "with losses", "with both")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--orders", type=int, default=500)
    parser.add_argument("--database", choices=("sqlite", "postgresql", "both"), default="both")
    args = parser.parse_args()
    wrong = 0
    for name in ("sqlite", "postgresql") if args.database == "both" else (args.database,):
        with _engine(name) as engine:
            began, right = time.monotonic(), Counter()
            for seed in range(args.orders):
                order = order_of(seed)
                found = problems(engine, order, play(engine, order))
                right[KINDS[seed & 3]] += not found
                for problem in found:
                    print(f"{name}: order {seed}: {problem}")
            wrong += args.orders - right.total()
            kinds = ", ".join(f"{right[kind]} {kind}" for kind in KINDS)
            print(
                f"{name}: {right.total()} of {args.orders} orders ended right with {WRITERS} writers ({kinds}), "
                f"{time.monotonic() - began:.1f} s"
            )
    return 1 if wrong else 0


@contextlib.contextmanager
def _engine(name: str) -> Iterator[Engine]:
    if name == "sqlite":
        with tempfile.TemporaryDirectory() as folder:
            engine = open_engine(f"sqlite:///{folder}/relay.sqlite3")
            migrate(engine)
            yield engine
            engine.dispose()
        return
    with private_cluster() as cluster:
        engine = open_engine(cluster.new_database())
        yield engine
        engine.dispose()


if __name__ == "__main__":
    sys.exit(main())
