"""The bodies of ``relay learn``: weights for the ranker on trial, from a replay's faults or the relay's history."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from relay.cli.replay import Given, session
from relay.cli.terminal import Terminal
from relay.services import learning
from relay.settings import load
from relay.store.db import open_migrated
from selector.plan.learning import HELD_OUT, newest
from selector.replay.training import examples

if TYPE_CHECKING:
    from relay.worker.learn import Fitted


def from_replay(given: Given, target: Path, console: Console | None = None) -> int:
    """Fits a ranker to a replay's killed faults of the writing kinds, a drawn part held out, and writes its weights.
    Raises TooLittle."""
    from relay.worker.replay.job import taken

    out = console or Terminal(soft_wrap=True)
    replay = session(given, out)
    found = list(examples(replay.faults, replay.pool(), replay.cases, replay.known))
    held = {one.change for one in found if taken(f"{given.seed} held", one.change, HELD_OUT)}
    return _write(lambda fit: fit(found, held, "faults", {"replay": given.seed, "kinds": "writing"}), target, out)


def from_history(config: str | None, device: str | None, target: Path, console: Console | None = None) -> int:
    """Fits a ranker to what the changes of trusted authors broke in the relay's database, the newest held out, and
    writes its weights. Raises TooLittle, SettingsError."""
    out = console or Terminal(soft_wrap=True)
    settings = load(config)
    engine = open_migrated(settings.database)
    try:
        taught = learning.history(engine, device or settings.device)
    finally:
        engine.dispose()
    out.print(taught.told())
    held = newest(taught.ended)
    days = [_day(at) for at in (min(taught.ended.values()), max(taught.ended.values()))]
    origin = {"history": device or settings.device, "from": days[0], "to": days[1], "authors": "trusted"}
    return _write(lambda fit: fit(taught.examples, held, "changes", origin), target, out)


def _write(made: Callable[..., Fitted], target: Path, out: Console) -> int:
    # torch is imported where weights are fitted, and nowhere else
    from relay.worker.learn import fit

    value = made(fit).value
    target.write_text(json.dumps(value, indent=1), encoding="utf-8")
    told = f"{target}: {len(value['features'])} weights of {value['origin']}; held out: {value['metrics']}"
    out.print(told)
    return 0


def _day(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).date().isoformat()
