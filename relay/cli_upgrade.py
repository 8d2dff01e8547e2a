"""The body of ``relay upgrade``: what a new upstream release changes for a device, and what is to be run for it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from rich.console import Console

from relay.cli_select import RUNTIMES, LocalRepository, read_database, torch_of
from relay.errors import SettingsError
from relay.mirror.git import GitTree
from relay.services.device_configs import load_device
from relay.settings import Settings
from relay.upgrade_report import markdown, to_value
from selector.discover import DirectoryCache, take
from selector.discover.diff import Side, compare
from selector.discover.inventory import is_inventoried
from selector.model import Tree
from selector.plan import Budget, WorkerOffer
from selector.plan.upgrade import Upgrade, plan_upgrade
from selector.trees import DirTree
from selector.triage.engagement import Uses


@dataclass(frozen=True, slots=True)
class Request:
    """``old``, ``new``: folders, or revisions of the repository ``upstream``; ``opdb_old``, ``opdb_new``: exported op
    databases of their torches; ``write``: a folder for the report, the plan and the edits."""

    old: str
    new: str
    configs: Path
    upstream: Path | None = None
    opdb_old: Path | None = None
    opdb_new: Path | None = None
    cache: Path | None = None
    write: Path | None = None


def run(request: Request, *, as_json: bool, console: Console | None = None) -> int:
    """Prints the report; 0 when done. RelayError and SelectorError for what cannot be used."""
    out = console if console is not None else Console()
    began = time.perf_counter()
    upgrade, timings = upgraded(request)
    timings["all"] = round(time.perf_counter() - began, 3)
    value = to_value(upgrade, timings)
    text = markdown(upgrade, timings)
    if request.write is not None:
        request.write.mkdir(parents=True, exist_ok=True)
        (request.write / "upgrade.json").write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
        (request.write / "upgrade.md").write_text(text, encoding="utf-8")
    if as_json:
        out.file.write(json.dumps(value, indent=1) + "\n")  # not print(): JSON is not wrapped
    else:
        out.file.write(text)
    return 0


def upgraded(request: Request) -> tuple[Upgrade, dict[str, float]]:
    """The upgrade and the seconds of its steps. RelayError and SelectorError for what cannot be used."""
    device = load_device(request.configs)
    cache = DirectoryCache(request.cache) if request.cache is not None else None
    with ExitStack() as open_:
        trees = [open_.enter_context(_tree(one, request.upstream)) for one in (request.old, request.new)]
        marks = [time.perf_counter()]
        databases = [read_database(path) for path in (request.opdb_old, request.opdb_new)]
        old = Side(trees[0], take(trees[0], cache), databases[0])
        # most files are the same: they are not read again
        new = Side(trees[1], take(trees[1], cache, old.inventory), databases[1])
        marks.append(time.perf_counter())
        difference = compare(old, new)
        marks.append(time.perf_counter())
        settings = Settings.model_fields
        budget = Budget(float(settings["budget_minutes"].default) * 60, float(settings["shard_seconds"].default))
        upgrade = plan_upgrade(
            (request.old, old),
            (request.new, new),
            difference,
            device.capability,
            device.configs,
            (WorkerOffer(torch_of(new.opdb), RUNTIMES),),
            budget,
            uses=Uses(new.tree.read, new.tree.paths(), cache),
        )
        marks.append(time.perf_counter())
    steps = ("inventories", "compare", "plan")
    return upgrade, {name: round(b - a, 3) for name, (a, b) in zip(steps, pairwise(marks), strict=True)}


@contextmanager
def _tree(name: str, upstream: Path | None) -> Iterator[Tree]:
    if Path(name).is_dir():
        yield DirTree(Path(name), only=is_inventoried)
        return
    if upstream is None:
        hint = "for a revision give its repository with --upstream DIR"
        raise SettingsError(f"{name}: there is no such folder", hint)
    repository = LocalRepository(upstream)
    with GitTree(repository, repository.commit(name)) as tree:
        yield tree
