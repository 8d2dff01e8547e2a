"""What results say about a config: proposals with their evidence. A person merges them, or does not.

Read from trunk's results (relay.store.trunk) or from a run that somebody made; results of an unmerged change propose
nothing. What an environment spoilt is no evidence, and no fault of an environment becomes a limit of the device.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Literal

from selector.configs import ConfigProblem, ReuseConfigs
from selector.model import Mode, TestId, VariantResult
from selector.plan.patch import ConfigEdit
from selector.plan.patch_tolerance import ToleranceEdit
from selector.plan.standing import Enough, Run, Standing
from selector.plan.tolerance import Tolerance, needed
from selector.plan.trunk import standing

Kind = Literal["promote", "demote", "quarantine", "limit", "tolerance", "remove", "agent"]
STALE = frozenset(
    {"config-until-passed", "config-issue-closed", "config-dead-name", "config-dead-file", "config-unreachable"}
)
QUARANTINE_DAYS = 14


@dataclass(frozen=True, slots=True)
class Proposal:
    """``subject``: a test's id, or a place in a config. ``edit`` None: no edit of a config follows (quarantine is kept
    by the relay), or a person has to write it."""

    kind: Kind
    subject: str
    reason: str
    evidence: tuple[str, ...]
    edit: ConfigEdit | ToleranceEdit | None = None
    until: str = ""


@dataclass(frozen=True, slots=True)
class Rough:
    """A test that was off by rounding in every run; ``failed``: its failures."""

    test: TestId
    runs: Sequence[Run]
    failed: Sequence[VariantResult]


@dataclass(slots=True)
class Found:
    proposals: list[Proposal] = field(default_factory=list)
    rough: list[Rough] = field(default_factory=list)
    unexplained: list[TestId] = field(default_factory=list)
    """tests that fail for no limit of the device that is known: an entry would hide a fault"""


def propose(
    runs: Mapping[TestId, Sequence[Run]], configs: ReuseConfigs, today: date, enough: Enough | None = None
) -> Found:
    """Proposals for tests out of their runs, newest first, in the order of tests."""
    found = Found()
    for test in sorted(runs):
        stands = standing(runs[test])
        if stands is not None:
            _test(test, stands, configs, today, enough or Enough(), found)
    found.proposals += tolerances(found.rough, configs, enough or Enough())
    return found


def tolerances(rough: Sequence[Rough], configs: ReuseConfigs, enough: Enough) -> list[Proposal]:
    """One for each op and dtype (for each test and dtype, of tests without ops) of which enough runs were measured."""
    groups: dict[tuple[str, str | None, str | None], list[tuple[Rough, VariantResult]]] = {}
    for one in rough:
        for result in one.failed:
            key = ("" if result.op else str(one.test), result.op, result.dtype)
            groups.setdefault(key, []).append((one, result))
    found = []
    for (name, op, dtype), members in sorted(groups.items(), key=lambda item: tuple(map(str, item[0]))):
        runs = {(run.commit, at) for one, _ in members for at, run in enumerate(one.runs)}
        commits = {commit for commit, _ in runs}
        close = needed(result.message for _, result in members)
        if close is None or len(runs) < enough.runs or len(commits) < enough.commits:
            continue
        tests = list(dict.fromkeys(one.test for one, _ in members))
        told = f"{len(runs)} runs on {len(commits)} commits, {len(tests)} test" + ("s" if len(tests) > 1 else "")
        subject = " ".join(word for word in (name, op, dtype) if word)
        evidence = (told, close.measured)
        edit = _tolerance(configs, tests[0], op, dtype, close, "; ".join(evidence))
        reason = close.sentence if edit else f"{close.sentence}; the failures name no dtype that a config could name"
        found.append(Proposal("tolerance", subject, reason, evidence, edit))
    return found


def _tolerance(
    configs: ReuseConfigs, test: TestId, op: str | None, dtype: str | None, close: Tolerance, evidence: str
) -> ToleranceEdit | None:
    if dtype is None or "," in dtype:
        return None
    supported = tuple(sorted(configs.dtypes(test).supported or ()))
    mode = configs.rule(test, op, "", dtype).mode
    why = "off by no more than rounding"
    return ToleranceEdit(test, op, dtype, close.atol, close.rtol, why, evidence, mode, supported)


def stale(problems: Iterable[ConfigProblem]) -> list[Proposal]:
    """Entries that lint shows to be of no use any more: a date that has passed, a closed issue, a test that is gone."""
    return [
        Proposal("remove", f"{p.source}:{p.line}", p.message, (f"{p.code} at {p.source}:{p.line}:{p.column}",))
        for p in problems
        if p.code in STALE
    ]


def _test(test: TestId, stands: Standing, configs: ReuseConfigs, today: date, enough: Enough, found: Found) -> None:
    plenty, told = stands.plenty(enough), stands.told
    if stands.kind == "promotable" and plenty:
        edit = ConfigEdit(test, _unlisted(configs, test), "passes", told)
        reason = "every variant that is expected to fail passes"
        found.proposals.append(Proposal("promote", str(test), reason, (told,), edit))
    elif stands.kind == "comes-and-goes":
        until = (today + timedelta(days=QUARANTINE_DAYS)).isoformat()
        reason = f"fails in {stands.bad} of {len(stands.runs)} runs"
        found.proposals.append(Proposal("quarantine", str(test), reason, (told,), None, until))
    elif stands.kind == "limit":
        mode, reason = stands.limit
        found.proposals.append(Proposal("limit", str(test), reason, (told,), ConfigEdit(test, mode, reason, told)))
    elif stands.kind == "rough" and plenty:
        found.rough.append(Rough(test, stands.runs, stands.failed))
    elif stands.kind in ("rough", "fails") and plenty:
        until = (today + timedelta(days=90)).isoformat()
        reason = f"fails on trunk: {stands.first_words}"
        edit = ConfigEdit(test, Mode.XFAIL, reason, told, until=until)
        found.proposals.append(Proposal("demote", str(test), reason, (told,), edit, until))
    elif stands.kind in ("rough", "fails"):
        found.unexplained.append(test)


def _unlisted(configs: ReuseConfigs, test: TestId) -> Mode | None:
    """None where the file runs its unlisted tests: then the name is simply taken out of its entry."""
    for suite in configs.suites:
        for file in suite.files:
            if file.path.matches(test.file):
                return None if file.unlisted is Mode.MANDATORY_SUCCESS else Mode.MANDATORY_SUCCESS
    return Mode.MANDATORY_SUCCESS
