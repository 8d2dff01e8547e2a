"""What a model can add over rules on the tests that rules are not sure of: a scripted one, which reads as well as a
model may be believed to. See docs/agents.md, "What a model adds"."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Sequence

import agent_lab
from model_server import Request, Script, Server, serving

from relay.cli.triage import _read, _sources
from selector.agents import Asked, RulesAgent
from selector.agents.desk import Past
from selector.agents.grounds import proof
from selector.agents.records import Record
from selector.agents.sheets import Ground
from selector.configs import load_capability
from selector.discover import DirectoryCache, Impact, take
from selector.discover.findings import IMPACT_CODES
from selector.discover.inventory import is_inventoried
from selector.model import Change, Evidence, Stage, TestId
from selector.trees import DirTree
from selector.triage import triage
from selector.triage.decisions import read_decisions
from selector.triage.engagement import Uses
from selector.triage.evaluation import DECIDERS, _lifts
from selector.triage.evidence import engagements, read_evidence
from selector.triage.subject import Opinion, Subject

CODE = "helper"
"""as if a change had reached the test, and had not edited it"""
AMPLE = {"steps": 5_000, "tokens": 100_000_000, "usd": 10_000.0, "seconds": 600.0}


class Noting(RulesAgent):
    """The rules' own agent, which notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Subject] = []

    def answers(self, asked: Sequence[Asked], controls: Sequence[Subject]) -> list[Opinion]:
        self.asked += [one.subject for one in asked]
        return super().answers(asked, controls)


class Reader:
    """Drops every test for which some ground holds by the parsed source, and quotes what stands there; as a critic it
    agrees to those alone. Nothing that a model says beyond that is taken: so it is the most that one can add."""

    def __init__(self, subjects: Sequence[Subject], tree: DirTree) -> None:
        held = {str(s.id): next((g for g in Ground if proof(g, s) is not None), None) for s in subjects}
        drops = {test: ground.value for test, ground in held.items() if ground is not None}
        files = {s.id.file for s in subjects}
        every = {path: tree.read(path).decode("utf-8", "replace") for path in tree.paths() if path in files}
        self.drops = drops
        self._script = Script(every, drops)
        self._sources, self._tree = every, tree

    def __call__(self, request: Request) -> list[dict[str, object]]:
        for path in {test.partition("::")[0] for test in request.ids} - set(self._sources):
            self._sources[path] = self._tree.read(path).decode("utf-8", "replace")
        return self._script(request)


def run(given: argparse.Namespace) -> None:
    """Prints the table."""
    tree = DirTree(given.upstream, only=is_inventoried)
    cache = DirectoryCache(given.cache) if given.cache is not None else None
    inventory = take(tree, cache)
    decisions = read_decisions(_sources(given.configs), inventory)
    sheet = load_capability(_read(given.sheet), given.sheet.name)
    rows = [row for path in given.evidence for row in read_evidence(_read(path), path.name)]
    seen = engagements(rows)
    kernels = {test: found.kernels for test, found in seen.items()}
    by_test: dict[TestId, set[bool]] = {}
    for decided in decisions:
        for test in decided.tests:
            by_test.setdefault(test, set()).add(decided.engages)
    dtypes = {test: decided.op_dtypes for decided in decisions for test in decided.tests}
    impacts = [
        Impact(test, (CODE,), (Evidence(CODE, "decided by people", test.file),), IMPACT_CODES[CODE])
        for test in sorted(by_test)
    ]
    uses = Uses(tree.read, inventory.ids, cache)
    noting = Noting()
    more = {"lifts": lambda test: _lifts(test, inventory, dtypes), "environment": DECIDERS, "uses": uses}
    triage(impacts, inventory, sheet, None, None, agent=noting, **more)  # type: ignore[arg-type]
    reader = Reader(noting.asked, tree)
    with serving(Server(reader)) as server:
        wanted = agent_lab.request(hostile=False)
        asked = agent_lab.agent(server.url, wanted, **AMPLE)
        asked.desk.tree, asked.desk.sheet, asked.change = tree, sheet, Change("a" * 40, "b" * 40, ())
        asked.desk.past = {t: Past(one.kernels, None, 0, 1, one.engages is False) for t, one in seen.items()}
        began = time.monotonic()
        said = triage(impacts, inventory, sheet, None, None, agent=asked, **more)  # type: ignore[arg-type]
        seconds = time.monotonic() - began
    dropped = [TestId.parse(d.subject) for d in said.decisions if d.by == "critic" and d.verdict == "irrelevant"]
    _print(noting.asked, dropped, by_test, kernels, reader.drops, asked.journal.records, seconds, len(server.asked))


def _print(
    asked: Sequence[Subject],
    dropped: Sequence[TestId],
    by_test: dict[TestId, set[bool]],
    kernels: dict[TestId, int],
    grounds: dict[str, str],
    records: Sequence[Record],
    seconds: float,
    requests: int,
) -> None:
    def told(tests: Sequence[TestId]) -> str:
        engages = sum(by_test[test] == {True} for test in tests)
        not_ = sum(by_test[test] == {False} for test in tests)
        ran = sum(kernels.get(test, 0) > 0 for test in tests)
        metered = sum(test in kernels for test in tests)
        return f"{len(tests)} | {engages} | {not_} | {len(tests) - engages - not_} | {ran} of {metered}"

    ids = [subject.id for subject in asked]
    refused = Counter(line.code for r in records for line in r.refused if r.stage is Stage.TRIAGE)
    wanted = [test for test in ids if str(test) in grounds]
    print("| tests | number | decided to engage | decided not to | both | ran kernels, of metered |")
    print("|---|---|---|---|---|---|")
    print(f"| asked about, of {len(by_test)} decided; kept by rules alone | {told(ids)} |")
    print(f"| that the scripted model wants to drop, since a ground holds | {told(wanted)} |")
    print(f"| dropped | {told(dropped)} |")
    print(f"| kept | {told([t for t in ids if t not in set(dropped)])} |")
    print(f"\n{requests} requests, {seconds:.1f} s")
    print("refused: " + (", ".join(f"{code} {n}" for code, n in sorted(refused.items())) or "nothing"))
    for test in dropped:
        print(f"  {test}: {grounds[str(test)]}, decided {sorted(by_test[test])}")
