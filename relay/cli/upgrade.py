"""The body of ``relay upgrade``: what a new upstream release changes for a device, and what is to be run for it."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from relay.cli.select import RUNTIMES, read_database, torch_of
from relay.cli.terminal import Terminal
from relay.cli.trees import inventoried_tree
from relay.errors import SettingsError
from relay.services.device_configs import load_device
from relay.services.upgrading import Release, report
from relay.settings import Settings, load
from relay.store import upgrades
from relay.store.db import open_migrated
from relay.torches import database_of
from relay.upgrade_report import markdown
from selector.discover import DirectoryCache
from selector.model import OpDatabase
from selector.plan import Budget, WorkerOffer


@dataclass(frozen=True, slots=True)
class Request:
    """``old``, ``new``: folders, or revisions of the repository ``upstream``; of their torches: ``opdb_old``,
    ``opdb_new`` exported op databases, or ``torch_old``, ``torch_new`` interpreters (or unpacked packages) that tell
    them; ``write``: a folder for the report, the plan and the edits."""

    old: str
    new: str
    configs: Path
    upstream: Path | None = None
    opdb_old: Path | None = None
    opdb_new: Path | None = None
    cache: Path | None = None
    write: Path | None = None
    torch_old: Path | None = None
    torch_new: Path | None = None


def run(request: Request, *, as_json: bool, console: Console | None = None) -> int:
    """Prints the report; 0 when done. RelayError and SelectorError for what cannot be used."""
    out = console if console is not None else Terminal()
    began = time.perf_counter()
    value = upgraded(request)
    value["seconds"]["all"] = round(time.perf_counter() - began, 3)
    text = markdown(value)
    if request.write is not None:
        request.write.mkdir(parents=True, exist_ok=True)
        for name, content in (
            ("upgrade.json", json.dumps(value, indent=1) + "\n"),
            ("upgrade.md", text),
            ("configs.patch", value["configs"]["patch"]),
        ):
            (request.write / name).write_text(content, encoding="utf-8")
    # not print(): neither is wrapped
    out.file.write(json.dumps(value, indent=1) + "\n" if as_json else text)
    return 0


def run_on(old: str, new: str, config: str, console: Console | None = None) -> int:
    """Asks a relay for the upgrade, on workers of both torches; 0, also when it was asked for before. ``old``, ``new``:
    commits or branches of its upstream. Prints the address of the page."""
    settings = load(config)
    for name in (old, new):
        if not name or name.startswith("-") or ".." in name:
            raise SettingsError(f"{name!r} is no commit or branch of {settings.upstream_repo}", "as git spells it")
    engine = open_migrated(settings.database)
    with engine.begin() as conn:
        asked = upgrades.ask(conn, kind="release", device=settings.device, old=old, new=new, now=time.time())
    engine.dispose()
    said = "asked for" if asked else "asked for before"
    (console or Terminal()).print(f"{said}: {settings.url}/upgrade/{old}..{new}", soft_wrap=True)
    return 0


def upgraded(request: Request) -> dict[str, Any]:
    """The report as plain values. RelayError and SelectorError for what cannot be used."""
    device = load_device(request.configs)
    cache = DirectoryCache(request.cache) if request.cache is not None else None
    old_ops = _database(request.opdb_old, request.torch_old, cache, "from")
    new_ops = _database(request.opdb_new, request.torch_new, cache, "to")
    settings = Settings.model_fields
    budget = Budget(float(settings["budget_minutes"].default) * 60, float(settings["shard_seconds"].default))
    offers = (WorkerOffer(torch_of(new_ops), RUNTIMES),)
    with ExitStack() as open_:
        old, new = (open_.enter_context(inventoried_tree(one, request.upstream)) for one in (request.old, request.new))
        sides = Release(request.old, old, old_ops), Release(request.new, new, new_ops)
        return report(*sides, device, offers, budget, datetime.now(UTC).date(), cache).value


def _database(file: Path | None, torch: Path | None, cache: DirectoryCache | None, side: str) -> OpDatabase | None:
    if file is not None and torch is not None:
        raise SettingsError(f"--opdb-{side} and --torch-{side} say the same", "give one of them")
    return database_of(torch, cache) if torch is not None else read_database(file)
