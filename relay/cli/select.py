"""The body of ``relay select``: which upstream tests matter for a change and a device, and why."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import TypeVar

from rich.console import Console

from relay.cli.select_change import ChangeSource, opened
from relay.cli.select_text import print_asked, print_explained, print_summary, record_value, to_value
from relay.cli.terminal import Terminal
from relay.errors import BadRequest, SettingsError, UpstreamGone
from relay.mirror import command, diff
from relay.mirror.git import GitTree
from relay.services import advising
from relay.services.device_configs import load_device
from relay.settings import Settings
from selector.agents import RulesAgent
from selector.agents.records import Record
from selector.discover import DirectoryCache, Hints, MemoryCache
from selector.discover.measured import MeasuredLinks
from selector.discover.traced import Trace
from selector.model import Change, OpDatabase, Selection
from selector.opdb import from_json
from selector.pipeline import SelectionRequest, select
from selector.plan import Budget, WorkerOffer

T = TypeVar("T")
GIT_S = 60.0
RUNTIMES = ("tests-only", "overlay")
"""what an emulator worker of this version offers"""


class LocalRepository:
    """A git repository in a folder, bare or with a work tree; nothing is fetched into it or written to it."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise SettingsError(f"{folder} is not a folder", "--upstream is a git checkout or a bare repository")
        inside = folder if (folder / "HEAD").is_file() else folder / ".git"
        said = command.git(inside, "rev-parse", "--absolute-git-dir", timeout_s=GIT_S)
        if said.code != 0:
            raise SettingsError(f"{folder} is not a git repository: {said.problem}", "git clone it, or git init")
        self.path = Path(said.out.decode("utf-8", "surrogateescape").strip())

    def commit(self, revision: str) -> str:
        """The commit id of a branch, tag, id or expression such as ``HEAD~1``. BadRequest where there is none."""
        if revision.startswith("-") or not revision:
            raise BadRequest(f"{revision!r} is not a revision", "name a branch, a tag or a commit")
        said = command.git(self.path, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}", timeout_s=GIT_S)
        if said.code != 0:
            raise UpstreamGone(f"{self.path} has no commit {revision!r}", "git fetch it first, or check its spelling")
        return said.out.decode("ascii").strip()

    def change(self, base: str, head: str) -> Change:
        """What ``head`` changes since it left ``base``; the title is that of its newest commit."""
        said = command.git(self.path, "merge-base", base, head, timeout_s=GIT_S)
        common = said.out.decode("ascii").split()[0] if said.code == 0 and said.out else base
        title = command.git(self.path, "log", "-1", "--format=%s", head, timeout_s=GIT_S).out.decode("utf-8", "replace")
        return Change(common, head, diff.changes(self.path, common, head), title.strip())


def run(
    upstream: Path,
    base: str,
    head: str,
    configs: Path,
    opdb: Path | None,
    *,
    as_json: bool,
    explain: bool,
    cache: Path | None = None,
    budget_s: float | None = None,
    console: Console | None = None,
    patch: Path | None = None,
    compare: str = "",
    measured: Path | None = None,
    trace: Path | None = None,
    asking: Settings | None = None,
) -> int:
    """Selects and prints; 0 when done. RelayError and SelectorError for what cannot be used.

    ``cache``: folder that keeps parsed files between runs; ``budget_s``: as in the settings where not given;
    ``patch``, ``compare``: the change, in the place of ``head``; ``measured``: a table of measured links;
    ``trace``: one of ``relay trace``.
    """
    out = console if console is not None else Terminal()
    source = ChangeSource(base, head, patch, compare)
    told = "a file of {source: {test file: weight}}, such as upstream's own profiling table"
    links = _table(measured, MeasuredLinks.from_json, told)
    hints = Hints(links, trace=_table(trace, Trace.from_bytes, "relay trace writes such a table"))
    selection, records = selected_and_asked(
        upstream, source, configs, opdb, cache=cache, budget_s=budget_s, hints=hints, asking=asking
    )
    if as_json:
        said = {"agents": [record_value(one) for one in records]} if asking else {}
        value = {**to_value(selection), **said}
        out.file.write(json.dumps(value, indent=1) + "\n")  # not print(): JSON is not wrapped
    elif explain:
        print_explained(selection, out)
    else:
        print_summary(selection, out)
    if not as_json:
        print_asked(records, out)
    return 0


def selected(
    upstream: Path,
    base: str,
    head: str,
    configs: Path,
    opdb: Path | None,
    *,
    cache: Path | None = None,
    budget_s: float | None = None,
) -> Selection:
    """The selection for ``base..head`` of a local repository. RelayError and SelectorError for what cannot be used."""
    source = ChangeSource(base, head)
    return selected_and_asked(upstream, source, configs, opdb, cache=cache, budget_s=budget_s)[0]


def selected_and_asked(
    upstream: Path,
    source: ChangeSource,
    configs: Path,
    opdb: Path | None,
    *,
    cache: Path | None = None,
    budget_s: float | None = None,
    hints: Hints | None = None,
    asking: Settings | None = None,
) -> tuple[Selection, list[Record]]:
    """The same for a change from anywhere, and what a model was asked and said. ``asking``: the settings that name the
    model, None to ask none. SettingsError where they name none, or none that can be asked."""
    repository = LocalRepository(upstream)
    device = load_device(configs)
    database = read_database(opdb)
    settings = Settings.model_fields
    budget = budget_s if budget_s is not None else float(settings["budget_minutes"].default) * 60
    with opened(repository, source) as found, ExitStack() as trees:
        change = found.change
        before = trees.enter_context(GitTree(found.repository, change.base))
        after = trees.enter_context(GitTree(found.repository, change.head))
        kept = DirectoryCache(cache / "agents") if cache is not None else MemoryCache()
        told = advising.in_force(asking, "--agents") if asking else None
        asked = advising.advice(told, change, after, device.capability, cache=kept) if told else None
        selection = select(
            SelectionRequest(
                base=before,
                head=after,
                change=change,
                capability=device.capability,
                configs=device.configs,
                opdb=database,
                offers=(WorkerOffer(torch_of(database), RUNTIMES),),
                budget=Budget(budget, float(settings["shard_seconds"].default)),
                cache=DirectoryCache(cache) if cache is not None else None,
                hints=hints or Hints(),
                agent=asked.agent if asked else RulesAgent(),
                suspect_room_s=asked.room_s if asked else 0.0,
            )
        )
        records = asked.model.journal.records if asked and asked.model else []
        return replace(selection, warnings=(*selection.warnings, *found.warnings)), records


def read_database(path: Path | None) -> OpDatabase | None:
    """An exported op database; None for no path. Raises SettingsError, OpDatabaseError."""
    return _table(path, from_json, "make it with: python -m relay.worker.opdb --out FILE")


def _table(path: Path | None, read: Callable[[bytes], T], hint: str) -> T | None:
    """A file that somebody names; None for no path. Raises SettingsError, and whatever ``read`` does."""
    if path is None:
        return None
    try:
        return read(path.read_bytes())
    except OSError as exc:
        raise SettingsError(f"{path}: {exc.strerror}", hint) from exc


def torch_of(database: OpDatabase | None) -> str:
    """The torch that would run the tests: the op database's, else the installed one's (not imported)."""
    if database is not None:
        return database.torch
    try:
        return metadata.version("torch").split("+")[0]
    except metadata.PackageNotFoundError:
        hint = "install the extra `emulator`, or give --opdb with the op database of the torch that will run"
        raise SettingsError("no torch is installed, so nothing says which one would run the tests", hint) from None
