"""How long a shard stands still when its worker is killed, and that what it had finished is not run again.

``python tests/bench/release.py [--kills 5]``: ``relay up`` as it is (its own web, pump and broker; the default
settings), two emulator workers, and shards of short tests. In the middle of each shard its worker gets ``kill -9``; the
table says how many seconds passed until the shard was leased again, until the first variant came in after the kill, and
how many of the variants that the relay had were run again, which is 0. The dead worker is started again, as a
service manager would, before the next kill. A last line is JSON. Exit status 1: a variant was run again, or lost.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from factories import make_run, shard_spec  # noqa: E402
from private_brokers import free_ports  # noqa: E402
from sqlalchemy import Engine, select  # noqa: E402

from relay.artifacts import artifacts  # noqa: E402
from relay.queue.names import shard_queue  # noqa: E402
from relay.services import printing  # noqa: E402
from relay.settings import Settings  # noqa: E402
from relay.store import shard_logs, shards  # noqa: E402
from relay.store.db import open_engine, reading  # noqa: E402
from relay.store.schema import result, shard, worker  # noqa: E402
from relay.worker import greeting  # noqa: E402

VARIANTS = 20
SOURCE = "import time\nfrom unittest import TestCase\n\n\nclass TestSmall(TestCase):\n" + "".join(
    f"    def test_{number:02}(self):\n        print({number})\n        time.sleep(0.3)\n\n"
    for number in range(VARIANTS)
)
FILE = "test/test_small.py"
TESTS = [f"{FILE}::TestSmall::test_{number:02}" for number in range(VARIANTS)]
PATIENCE_S = 300.0


def until(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise SystemExit("it did not happen in time")
        time.sleep(0.01)
    return found


def git_tree(folder: Path) -> str:
    """A repository with the tests; -> its commit."""
    (folder / "test").mkdir(parents=True)
    (folder / FILE).write_text(SOURCE)
    git = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "base"]):
        subprocess.run([*git, *words], check=True)
    return subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()


class Lab:
    """``relay up`` and two workers."""

    def __init__(self, tmp: Path) -> None:
        self.tmp, self.commit = tmp, git_tree(tmp / "upstream")
        (tmp / "allowlist.yml").write_text("L4:\n  - example-org/backend-ci\n")
        env = {key: value for key, value in os.environ.items() if not key.startswith("RELAY_")}
        port = free_ports(1)[0]
        self.up_env = env | {
            "RELAY_DATA_DIR": str(tmp / "relay"),
            "RELAY_UPSTREAM_URL": str(tmp / "upstream"),
            "RELAY_ALLOWLIST": str(tmp / "allowlist.yml"),
            "RELAY_WORKER_KEY": "key",
            "RELAY_PORT": str(port),
        }
        # where `relay up` puts its broker, for a folder of a short name
        broker = f"redis+socket://{tmp / 'relay' / 'broker' / 's.sock'}?virtual_host=0"
        self.worker_env = env | {
            "RELAY_BROKER_URL": broker,
            "RELAY_URL": f"http://127.0.0.1:{port}",
            "RELAY_WORKER_KEY": "key",
        }
        self.settings = Settings(data_dir=tmp / "relay", worker_key="key")
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.start("up", "relay.cli", "up", "--no-worker", env=self.up_env)
        until((tmp / "relay" / "up.json").exists)
        self.engine: Engine = open_engine(self.settings.database)
        for name in ("one", "two"):
            self.start_worker(name)
        self.wait_for_workers()

    def start(self, name: str, *command: str, env: dict[str, str]) -> None:
        with (self.tmp / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", *command], env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def start_worker(self, name: str) -> None:
        told = {"RELAY_WORKER_NAME": name, "RELAY_WORKER_DIR": str(self.tmp / name)}
        self.start(name, "relay.worker", env=self.worker_env | told)

    def wait_for_workers(self) -> None:
        def enrolled() -> bool:
            with reading(self.engine) as conn:
                return len(conn.execute(select(worker.c.name)).all()) == 2

        until(enrolled)
        time.sleep(8)  # the one that was started anew has its torch by then, and everything is quiet

    def row(self, key: str) -> Any:
        with reading(self.engine) as conn:
            return conn.execute(select(shard).where(shard.c.id == key)).one()

    def came(self, key: str) -> dict[str, str]:
        with reading(self.engine) as conn:
            rows = conn.execute(select(result.c.variant, result.c.outcome).where(result.c.shard_id == key)).all()
        return {row.variant: row.outcome for row in rows}

    def printed(self, key: str, fence: int) -> set[str]:
        """Variants that a lease's runner ran to their end, by its log."""
        with reading(self.engine) as conn:
            size = shard_logs.end(conn, key, fence)
        log = printing.window(self.engine, artifacts(self.settings), key, fence, 0, size).decode()
        return set(re.findall(r"^=== \S+::(test_\d+): ", log, re.M))

    def close(self) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()


def kill(lab: Lab) -> dict[str, Any]:
    """One shard whose worker is killed in its middle."""
    queue = shard_queue("spyre", platform.machine(), greeting.torch_version())
    spec = shard_spec(*TESTS, commit=lab.commit)
    run = make_run(lab.engine, head_sha=lab.commit, downstream=f"spyre/{time.monotonic_ns()}")
    with lab.engine.begin() as conn:
        (key,) = shards.add(conn, dispatch_id=run, side="head", queue=queue, specs=[spec], now=time.time())
    until(lambda: len(lab.came(key)) >= VARIANTS // 3)
    before, first = lab.came(key), lab.row(key)
    began = time.monotonic()
    lab.processes[first.worker].send_signal(signal.SIGKILL)
    lab.processes[first.worker].wait()
    again = until(lambda: (row := lab.row(key)).fence > first.fence and row.state == "leased" and row)
    leased = time.monotonic() - began
    until(lambda: len(lab.came(key)) > len(before))
    moved = time.monotonic() - began
    until(lambda: lab.row(key).state not in ("leased", "queued"))
    after = lab.came(key)
    lab.start_worker(first.worker)
    return {
        "leased_s": round(leased, 2),
        "next_result_s": round(moved, 2),
        "by": "the other" if again.worker != first.worker else "the same",
        "before": len(before),
        "run_again": len(before.keys() & lab.printed(key, lab.row(key).fence)),
        "passed": sum(outcome == "passed" for outcome in after.values()),
        "state": lab.row(key).state,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=5)
    args = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory(prefix="rel-", dir="/tmp") as made:
        lab = Lab(Path(made))
        try:
            for number in range(args.kills):
                if number:
                    lab.wait_for_workers()
                found.append(kill(lab))
                print(found[-1], flush=True)
        finally:
            lab.close()
    seconds = sorted(one["leased_s"] for one in found)
    print(json.dumps({"kills": len(found), "leased_s": seconds, "heartbeat_s": Settings().heartbeat_s}))
    return int(any(one["run_again"] or one["passed"] != VARIANTS or one["state"] != "done" for one in found))


if __name__ == "__main__":
    sys.exit(main())
