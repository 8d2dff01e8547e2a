"""The body of ``relay replay history``."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from relay.cli.select import LocalRepository, read_database
from relay.cli.terminal import Terminal
from relay.replay.history import History, commits, replay
from selector.replay.history import CommitOutcome, lines


def run(
    repository: Path, work: Path, head: str, count: int, seed: str, opdb: Path | None, minutes: float | None, *,
    as_json: bool, console: Console | None = None,
) -> int:  # fmt: skip
    """Replays commits and prints the table. 0; what cannot be used is raised: SettingsError, UpstreamGone."""
    out = console or Terminal(soft_wrap=True)
    where = LocalRepository(repository)
    work.mkdir(parents=True, exist_ok=True)
    until = None if minutes is None else time.monotonic() + minutes * 60
    chosen = commits(where.path, where.commit(head), count, seed)
    history = History(where.path, work / "cache", read_database(opdb))
    found = replay(history, chosen, work / "commits.jsonl", out.print, until)
    if as_json:
        out.file.write(json.dumps([asdict(one) for one in found], indent=1) + "\n")
    else:
        out.print(history_table(found, len(chosen)))
    return 0


def history_table(found: Sequence[CommitOutcome], drawn: int) -> Table:
    """A line a group; the interval is Wilson's, 95 %."""
    shown = Table(
        "commits", "with an edited test selected", "95 %", "edited tests selected", "tests selected", "widened",
        title=f"{sum(not o.cosmetic for o in found)} commits that edit code and tests that were there, of {drawn}",
    )  # fmt: skip
    for one in lines(found):
        low, high = one.commits.interval
        shown.add_row(
            one.group,
            f"{one.commits.value:.1%} ({one.commits.hits}/{one.commits.of})",
            f"{low:.1%}–{high:.1%}",
            f"{one.tests.value:.1%} ({one.tests.hits}/{one.tests.of})",
            f"{one.share:.1%} of all",
            str(one.widened),
        )
    return shown
