"""Triage measured against what people decided: how often both say the same, and where they do not, why."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from selector.agents import Asked, RulesAgent
from selector.configs import Capability
from selector.discover import Impact, Inventory
from selector.model import Decision, Evidence, OpDatabase, TestId
from selector.triage.decisions import HELD_OUT, TUNED, Decided
from selector.triage.engagement import Uses
from selector.triage.environment import Environment, Lifts
from selector.triage.evidence import Engagement
from selector.triage.exclusions import CODES, Excluded, Exclusions
from selector.triage.stage import triage
from selector.triage.subject import Opinion, Subject

DECIDERS = Environment(frozenset({"scipy"}), slow=False)
"""the machine on which the public decisions were made, by what its runs skipped: no SciPy, no slow tests"""
EVERY_DEVICE = frozenset({"cpu", "cuda", "mps", "xpu", "hpu", "xla"})
"""the older tool opens upstream's limits to devices for all tests that it runs"""


@dataclass(frozen=True, slots=True)
class Row:
    """One test with one decision about it, and what triage says."""

    test: TestId
    decided: Decided
    triaged: Decision
    asked: bool
    excluded: Excluded | None

    @property
    def kept(self) -> bool:
        return self.triaged.verdict != "irrelevant"

    @property
    def agrees(self) -> bool:
        return self.kept is self.decided.engages

    @property
    def category(self) -> str:
        return next(fact.detail for fact in self.triaged.evidence if fact.kind == "category")


@dataclass(frozen=True, slots=True)
class Figures:
    """Counts of rows, "kept" by triage against "engages" by the decision; shares are None where there is nothing."""

    both: int = 0
    """kept, and decided to engage"""
    neither: int = 0
    kept_only: int = 0
    decided_only: int = 0

    @property
    def rows(self) -> int:
        return self.both + self.neither + self.kept_only + self.decided_only

    @property
    def agreement(self) -> float | None:
        return _share(self.both + self.neither, self.rows)

    @property
    def precision(self) -> float | None:
        """Of what triage keeps, the part that was decided to engage."""
        return _share(self.both, self.both + self.kept_only)

    @property
    def recall(self) -> float | None:
        """Of what was decided to engage, the part that triage keeps."""
        return _share(self.both, self.both + self.decided_only)

    @property
    def drop_precision(self) -> float | None:
        """Of what triage drops, the part that was decided not to engage."""
        return _share(self.neither, self.neither + self.decided_only)

    @property
    def drop_recall(self) -> float | None:
        """Of what was decided not to engage, the part that triage drops."""
        return _share(self.neither, self.neither + self.kept_only)


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


@dataclass(frozen=True, slots=True)
class Measured:
    """``raw``: of all rows; ``counted``: of those that are not excluded. By part: ``all``, ``tuned``, ``held-out``."""

    rows: tuple[Row, ...]
    raw: Mapping[str, Figures]
    counted: Mapping[str, Figures]
    by_name: Figures
    """raw, but a row for every name as it is written, generated names of one test among them"""
    absent: tuple[Decided, ...]
    """names that mean no test of the tree"""
    asked: int
    names: int
    evidence: int
    """tests with evidence among the rows"""
    overruled: int
    """tests that the rules would have dropped, and of which trusted runs counted kernels"""
    categories: Mapping[str, Figures] = field(default_factory=dict)
    files: Mapping[str, Figures] = field(default_factory=dict)
    exclusions: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """code -> rows excluded, and how many of them disagree"""


def evaluate(
    decisions: Sequence[Decided],
    inventory: Inventory,
    capability: Capability,
    uses: Uses,
    opdb: OpDatabase | None = None,
    engaged: Mapping[TestId, Engagement] | None = None,
    environment: Environment = DECIDERS,
) -> Measured:
    """Triages every decided test of the tree and compares. A test that is named twice with the same answer (by a
    generated name, or in two configs) is one row; with two answers it is two rows, of which one cannot agree.

    ``engaged``: the counts of trusted runs. A test with kernels is never dropped; one that passed without any is what
    decides where the rules ask.
    """
    counts = engaged or {}
    exclusions = Exclusions(decisions, counts)
    pairs = {(test, decided.engages): decided for decided in reversed(decisions) for test in decided.tests}
    tests = sorted({test for test, _ in pairs})
    agent = _Noting()
    op_dtypes = {test: decided.op_dtypes for decided in decisions for test in decided.tests}
    said = triage(
        [
            Impact(test, ("edited-test",), (Evidence("edited-test", "decided by people", test.file),), 1.0)
            for test in tests
        ],
        inventory,
        capability,
        opdb,
        {test: found.kernels for test, found in counts.items()},
        agent=agent,
        lifts=lambda test: _lifts(test, inventory, op_dtypes),
        environment=environment,
        uses=uses,
        idle_before=frozenset(test for test, found in counts.items() if found.engages is False),
    )
    by_test = dict(zip(tests, said.decisions, strict=True))
    rows = [
        Row(test, decided, by_test[test], test in agent.asked, exclusions.of(decided, test))
        for (test, _), decided in sorted(pairs.items(), key=lambda item: item[0])
    ]
    by_pair = {(row.test, row.decided.engages): row for row in rows}
    return Measured(
        tuple(rows),
        _parts(rows),
        _parts(row for row in rows if row.excluded is None),
        figures(by_pair[test, decided.engages] for decided in decisions for test in decided.tests),
        tuple(decided for decided in decisions if not decided.tests),
        said.counts["ask"],
        len(decisions),
        sum(test in counts for test in tests),
        sum(decision.code == "engaged-before" for decision in said.decisions),
        _grouped(rows, lambda row: row.category),
        _grouped(rows, lambda row: row.test.file),
        {code: _excluded(rows, code) for code in CODES},
    )


def _lifts(test: TestId, inventory: Inventory, op_dtypes: Mapping[TestId, frozenset[str]]) -> Lifts:
    """What the older tool lifts: limits to devices, and for tests of ops or modules the limits to dtypes."""
    found = inventory.find(test)
    listed = found is not None and (found[1].ops is not None or found[1].modules is not None)
    return Lifts(EVERY_DEVICE, op_dtypes[test] if listed else frozenset())


class _Noting(RulesAgent):
    """The rules' own agent, which notes what it was asked."""

    def __init__(self) -> None:
        self.asked: set[TestId] = set()

    def answers(self, asked: Sequence[Asked], controls: Sequence[Subject]) -> list[Opinion]:
        self.asked.update(one.subject.id for one in asked)
        return super().answers(asked, controls)


def figures(rows: Iterable[Row]) -> Figures:
    counted = Counter((row.kept, row.decided.engages) for row in rows)
    return Figures(counted[True, True], counted[False, False], counted[True, False], counted[False, True])


def _parts(rows: Iterable[Row]) -> dict[str, Figures]:
    every = list(rows)
    parts = {part: [row for row in every if row.decided.part == part] for part in (TUNED, HELD_OUT)}
    return {"all": figures(every), **{part: figures(members) for part, members in parts.items()}}


def _grouped(rows: Iterable[Row], key: Callable[[Row], str]) -> dict[str, Figures]:
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return {name: figures(groups[name]) for name in sorted(groups)}


def _excluded(rows: Iterable[Row], code: str) -> tuple[int, int]:
    found = [row for row in rows if row.excluded is not None and row.excluded.code == code]
    return len(found), sum(not row.agrees for row in found)
