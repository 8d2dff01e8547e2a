"""The second yardstick on a git repository with upstream's history: see `selector.replay.history`."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from relay.errors import SettingsError
from relay.mirror import command, diff
from relay.mirror.git import GitTree
from selector.discover import DirectoryCache, Inventory, Shelf, discover, take
from selector.discover.fingerprints import Prints
from selector.errors import SelectorError
from selector.model import OpDatabase, TestId
from selector.replay.history import CommitOutcome, Split, edited, shown_change, shown_files, split
from selector.trees import LaidTree

GIT_S = 120.0


def commits(repository: Path, head: str, count: int, seed: str, pool: int = 1000) -> list[str]:
    """``count`` commits, drawn from the newest ``pool`` up to ``head`` that edit something under test/.

    SettingsError where there is no such history."""
    asked = ("log", "--no-merges", "--first-parent", f"-{pool}", "--format=%H", head, "--", "test/")
    said = command.git(repository, *asked, timeout_s=GIT_S)
    found = said.out.decode("ascii").split() if said.code == 0 else []
    if len(found) < 2:
        raise SettingsError(f"{repository} has no history of test/ before {head}: {said.problem}", "give a full clone")
    random.Random(f"{seed} commits").shuffle(found)
    return found[:count]


class History:
    """Replays commits one after the other; parsed files are kept in ``cache``."""

    def __init__(self, repository: Path, cache: Path, opdb: OpDatabase | None) -> None:
        self._repository, self._opdb = repository, opdb
        self._cache = DirectoryCache(cache)
        self._shelf = Shelf()

    def outcome(self, commit: str) -> CommitOutcome | None:
        """None for a commit that says nothing: see `split`; or one that edits no test that was there before."""
        base = self._parent(commit)
        if base is None:
            return None
        parts = split(diff.changes(self._repository, base, commit))
        if parts is None:
            return None
        where: Any = SimpleNamespace(path=self._repository)
        with GitTree(where, base) as before, GitTree(where, commit) as after:
            old = self._taken(before)
            new = take(after, self._cache, old)
            files = {file.path for file in parts.held}
            expected = edited(_prints(old, files), _prints(new, files))
            if not expected:
                return None
            return self._selected(commit, base, parts, before, old, expected)

    def _selected(
        self, commit: str, base: str, parts: Split, before: GitTree, old: Inventory, expected: frozenset[TestId]
    ) -> CommitOutcome:
        head = LaidTree(before, shown_files(parts, before))
        began = time.perf_counter()
        inventory = take(head, self._cache, old)
        found = discover(before, head, shown_change(base, "head", parts), self._opdb, self._cache, inventory)
        took = time.perf_counter() - began
        reached = {impact.test for impact in found.impacts}
        missed = tuple(sorted(str(test) for test in expected - reached))
        return CommitOutcome(
            commit,
            parts.native,
            len(expected),
            len(expected & reached),
            len(reached) / max(inventory.count, 1),
            found.widened,
            round(took, 3),
            missed[:20],
            {decision.code for decision in found.decisions} - {"smoke"} == {"cosmetic"},
        )

    def _taken(self, tree: GitTree) -> Inventory:
        self._shelf.latest = take(tree, self._cache, self._shelf.latest)
        return self._shelf.latest

    def _parent(self, commit: str) -> str | None:
        said = command.git(self._repository, "rev-parse", "--verify", "--quiet", f"{commit}^", timeout_s=GIT_S)
        return said.out.decode("ascii").strip() if said.code == 0 else None


def replay(
    history: History, chosen: list[str], state: Path, say: Callable[[str], None], until: float | None = None
) -> list[CommitOutcome]:
    """The outcomes of commits; ``state`` keeps them, a line a commit, so that a run that was cut off goes on."""
    known = {row["commit"]: row for row in _lines(state)}
    found = []
    for commit in chosen:
        if commit not in known:
            if until is not None and time.monotonic() > until:
                break
            try:
                outcome = history.outcome(commit)
                row: dict[str, Any] = {"commit": commit, "outcome": asdict(outcome) if outcome else None}
            except SelectorError as exc:
                row = {"commit": commit, "outcome": None, "error": str(exc)}
            with state.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            known[commit] = row
            if row["outcome"]:
                got = row["outcome"]
                share = f"{got['share']:.1%} of all selected"
                say(f"{commit[:10]}: {got['selected']} of {got['expected']} edited tests, {share}")
        row = known[commit]
        if row["outcome"]:
            found.append(CommitOutcome(**{**row["outcome"], "missed": tuple(row["outcome"]["missed"])}))
    return found


def _prints(inventory: Inventory, files: set[str]) -> list[tuple[TestId, str]]:
    prints = Prints(inventory)
    return [(test, prints.of(test).body) for test, _, _ in inventory.tests() if test.file in files]


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
            if line.endswith("\n"):
                yield json.loads(line)
