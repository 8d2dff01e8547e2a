"""The impacts found so far, by test; and the stable codes with the weight that each gives."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from selector.discover.inventory import Inventory
from selector.model import Decision, Evidence, Stage, TestId

# code -> weight (0..1: how directly the change reaches the test). Meanings are in docs/reason-codes.md.
IMPACT_CODES: dict[str, float] = {
    "edited-test": 1.0,
    "new-test": 1.0,
    "unreadable-test-file": 1.0,
    "helper": 0.9,
    "op-reference": 0.85,
    "renamed-test": 0.8,
    "helper-imported": 0.8,
    "op-info": 0.8,
    "op-native": 0.8,
    "op-decomposition": 0.75,
    "op-registered": 0.75,
    "op-kernel": 0.7,
    "op-native-code": 0.65,
    "op-codegen": 0.65,
    "module-use": 0.6,
    "import": 0.6,
    "traced": 0.6,
    "test-data": 0.6,
    "testlib": 0.6,
    "op-info-skips": 0.5,
    "op-python": 0.5,
    "name-use": 0.4,
    "used-by-module": 0.4,
    "measured": 0.35,
    "failed-before": 0.3,
    "test-named": 0.3,
    "op-title": 0.3,
    "agent-impact": 0.3,
    "area": 0.25,
    "smoke": 0.2,
    "same-class": 0.15,
    "op-kernel-other-backend": 0.1,
    "unmapped-change": 0.1,
}
EDITED_CODES = frozenset(("edited-test", "new-test"))
"""those of the tests that the change itself edits or adds"""
# fmt: off
FILE_CODES = frozenset((
    "binary-change", "cannot-matter", "cosmetic", "gone-test", "mapped", "no-change", "no-test-reached",
    "not-a-file", "other-backend",
    "submodule-bump", "too-many-changes", "unmapped-change", "unparsable-file",
))
# fmt: on
"""what can be said about a changed path, the whole change, or a test that is no more"""
_EVIDENCE_LIMIT = 12
"""facts kept for one test and code; the first ones found are the nearest"""


@dataclass(frozen=True, slots=True)
class Impact:
    """A test that a change reaches. ``codes`` strongest first; ``ops``: the op entries to which the impact is limited
    (empty: no limit); ``weight`` that of the strongest code, less where the link is weak."""

    test: TestId
    codes: tuple[str, ...]
    evidence: tuple[Evidence, ...]
    weight: float
    ops: frozenset[str] = frozenset()


@dataclass
class _Entry:
    weights: dict[str, float] = field(default_factory=dict)
    evidence: dict[str, list[Evidence]] = field(default_factory=dict)
    ops: set[str] = field(default_factory=set)
    limited: bool = True


class Findings:
    """Collects impacts, decisions about files, and what could not be mapped."""

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self.decisions: list[Decision] = []
        self.unmapped: list[Evidence] = []
        self._entries: dict[TestId, _Entry] = {}

    def add(
        self,
        test: TestId,
        code: str,
        evidence: Evidence,
        factor: float = 1.0,
        ops: frozenset[str] | None = None,
        *,
        first: bool = False,
    ) -> None:
        """The change reaches ``test``; ``ops`` where it does so through these op entries only; ``first`` puts the
        evidence before what is there already."""
        entry = self._entries.setdefault(test, _Entry())
        entry.weights[code] = max(entry.weights.get(code, 0.0), round(IMPACT_CODES[code] * min(1.0, factor), 4))
        facts = entry.evidence.setdefault(code, [])
        if evidence not in facts and (first or len(facts) < _EVIDENCE_LIMIT):
            facts.insert(0 if first else len(facts), evidence)
            del facts[_EVIDENCE_LIMIT:]
        if ops is None:
            entry.limited = False
        else:
            entry.ops |= ops

    def decide(self, subject: str, verdict: str, code: str, reason: str, *evidence: Evidence) -> None:
        """About a file or a test that is no more."""
        self.decisions.append(Decision(Stage.DISCOVER, subject, verdict, code, reason, evidence))

    def not_mapped(self, path: str, why: str, symbol: str | None = None) -> None:
        """Nothing could be said about this path (or symbol): the selection will be widened."""
        self.unmapped.append(Evidence("unmapped", why, path, symbol=symbol))

    def reached_by_path(self) -> dict[str, int]:
        """changed path -> how many tests have evidence that names it."""
        counts: Counter[str] = Counter()
        for entry in self._entries.values():
            counts.update({fact.path for facts in entry.evidence.values() for fact in facts if fact.path})
        return dict(counts)

    def impacts(self) -> tuple[Impact, ...]:
        """By weight, then by test: the same findings always give the same order."""
        found = []
        for test, entry in self._entries.items():
            codes = sorted(entry.weights, key=lambda code: (-entry.weights[code], -IMPACT_CODES[code], code))
            evidence = tuple(fact for code in codes for fact in entry.evidence[code])
            ops = frozenset(entry.ops) if entry.limited else frozenset[str]()
            found.append(Impact(test, tuple(codes), evidence, entry.weights[codes[0]], ops))
        return tuple(sorted(found, key=lambda impact: (-impact.weight, impact.test)))
