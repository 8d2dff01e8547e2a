"""The body of ``relay trace``."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from relay.cli.terminal import Terminal
from relay.domain.words import plural
from relay.replay.process import Host
from relay.replay.tracing import follow
from relay.replay.upstream import Ground
from relay.worker.replay.job import HostJob
from selector.discover.fingerprints import Prints
from selector.discover.traced import Followed
from selector.model import TestId
from selector.replay.model import PoolVariant

LEAST = 100
MOST = 1_000_000
SEED = "trace"


def run(
    upstream: Path,
    configs: Path,
    work: Path,
    target: Path,
    files: tuple[str, ...] = (),
    share: float = 1.0,
    minutes: float | None = None,
    console: Console | None = None,
) -> int:
    """Follows the tests that are for the device (of ``files`` alone, where some are given) and writes the table. 1, and
    nothing written, when no variant passed. SettingsError, TreeError, ReplayBroken."""
    out = console or Terminal(soft_wrap=True)
    until = None if minutes is None else time.monotonic() + minutes * 60

    def say(text: str) -> None:
        out.print(text)

    ground = Ground(upstream, configs, work, files)
    job = HostJob(
        upstream.resolve(), ground.site, configs.resolve(), ground.tests, (), SEED, share, LEAST, MOST
    )  # fmt: skip
    prints = Prints(ground.inventory)
    day = datetime.now(UTC).date().isoformat()
    with Host(job, work / "host.log") as host:
        for file, error in sorted(host.errors.items()):
            say(f"{file} cannot be imported: {error.strip().splitlines()[-1][:200]}")
        variants = [
            PoolVariant(key, TestId.parse(test), op, 0.0, host.shares[key.partition("::")[0]])
            for key, (test, op) in host.rows.items()
        ]
        found = follow(
            host, variants, ground.opdb.torch, say, until,
            lambda test: Followed(prints.own(test).deep, day), len(ground.tests),
        )  # fmt: skip
    if not found.units:
        say(f"no variant passed, so there is nothing to write; the log: {work / 'host.log'}")
        return 1
    target.write_bytes(found.to_bytes())
    functions = sum(len(names) for names in found.functions.values())
    entries = plural(len(found.units), "test or op entry", "tests and op entries")
    say(f"{target}: {entries}, {plural(functions, 'function')}, {plural(len(found.ops), 'operator')}")
    if not found.whole:
        tests = plural(found.of, "test was", "tests were")
        say(f"{len(found.tests)} of {tests} followed: the table adds tests and lets nothing widen less")
    return 0
