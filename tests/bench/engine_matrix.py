"""The whole demo, shards on the emulated device included, on every broker and database.

    python tests/bench/engine_matrix.py [--broker redis|rabbitmq|sentinel] [--database sqlite|postgresql]

Prints a line of JSON an engine: whether every step happened and the verdict is right, and the seconds that it took. The
suite (tests/integration/test_engines.py) does the same with an event of a downstream that has a CI of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import private_brokers  # noqa: E402
import private_postgres  # noqa: E402

BROKERS, DATABASES = ("redis", "sentinel", "rabbitmq"), ("sqlite", "postgresql")


def play(broker: str, database: str) -> bool:
    """One demo; True when it was right."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="relay-matrix-")))
        if broker == "sentinel":
            url = stack.enter_context(private_brokers.sentinel())[0]
        else:
            url = stack.enter_context(getattr(private_brokers, broker)()).url
        env = {**os.environ, "RELAY_BROKER_URL": url}
        if database == "postgresql":
            env["RELAY_DATABASE_URL"] = stack.enter_context(private_postgres.private_cluster()).new_database()
        command = [sys.executable, "-m", "relay.demo", "--once", "--dir", str(folder / "demo")]
        began = time.monotonic()
        done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=False)
        seconds = round(time.monotonic() - began, 1)
        told = {"broker": broker, "database": database, "right": done.returncode == 0, "seconds": seconds}
        print(json.dumps(told), flush=True)
        if done.returncode:
            print(done.stdout[-4000:], done.stderr[-2000:], file=sys.stderr)
        return done.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--broker", choices=BROKERS)
    parser.add_argument("--database", choices=DATABASES)
    args = parser.parse_args()
    wanted = [
        (broker, database)
        for broker in ([args.broker] if args.broker else BROKERS)
        for database in ([args.database] if args.database else DATABASES)
    ]
    right = [play(*one) for one in wanted]  # every one, also after one that was not
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
