"""Stage 4: what did running it show? Results in, one conclusion with its reasons out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

from selector.agents.port import SUSPECTED
from selector.model import (
    Decision,
    Evidence,
    FailureKind,
    Mode,
    NotExercised,
    Outcome,
    RunPlan,
    Side,
    Stage,
    TestId,
    VariantResult,
    Verdict,
)
from selector.plan.explore import CODE as EXPLORED
from selector.verify.again import Again
from selector.verify.causes import group
from selector.verify.exonerate import Court
from selector.verify.expected import expected_failures, said_beside, unexpected_passes
from selector.verify.faults import MEANING, fault_of
from selector.verify.judge import Judge, Judged, fails
from selector.verify.model import Selected, ShardProblem, Why, whys
from selector.verify.sentence import Facts, conclude
from selector.verify.text import NAME, clean, count
from selector.verify.trusted import Trusted

BESIDE = frozenset({(EXPLORED,), (SUSPECTED,)})
"""the codes of tests that run beside what the rules selected"""
_NOT_EXECUTED = frozenset((Outcome.SKIPPED, Outcome.SELF_SKIPPED))
_KIND_ORDER = {kind: place for place, kind in enumerate(get_args(FailureKind))}


def verify(
    selection_codes: Selected,
    head: Sequence[VariantResult],
    base: Sequence[VariantResult],
    problems: Sequence[ShardProblem],
    plan: RunPlan,
    again: Again | None = None,
    trusted: Trusted | None = None,
) -> Verdict:
    """The verdict on a change.

    ``base`` holds the base's results for what :func:`needs_base` asked for (empty: the base was not run); ``problems``
    what the shards of both sides reported besides results; ``again`` what :func:`next_step` asked to run again (None:
    one look at the base decides); ``trusted`` what is known of trunk. Success is only said when everything planned ran
    on a runtime that contains the whole change, something engaged the device, and nothing fails that passed before.
    """
    why = whys(selection_codes)
    before, head = head, again.effective(head) if again else head
    judge = Judge(why, again.base(base) if again else base, problems)
    court = Court(judge, head, again, trusted)
    judged = [court.variant(r) for r in head if fails(r)]
    expected = expected_failures(plan)
    judged = [replace(j, reason=j.reason + said_beside(j.code, expected.get(j.cause.test))) for j in judged]
    judged += _broken_files(judge, head, problems, plan)
    judged.sort(key=lambda j: (not j.counts, _KIND_ORDER[j.cause.kind], j.cause.test, j.cause.key))
    lost = [p for p in problems if p.side is Side.HEAD and p.kind == "infrastructure"]
    missing = _missing(head, problems, plan)
    counts = _counts(head, judged)
    executed = [r for r in head if r.outcome not in _NOT_EXECUTED]
    not_exercised = _not_exercised(problems, plan)
    facts = Facts(
        # what runs beside what was selected may be blamed on the change, and weakens its verdict in no other way
        judged=tuple(j for j in judged if j.counts or j.cause.codes not in BESIDE),
        counts=counts,
        tests=len({r.test for r in executed}),
        planned=len(plan.tests),
        executed=len(executed),
        passed=counts[Outcome.PASSED.value] + counts[Outcome.XFAILED.value] + counts[Outcome.XPASSED.value],
        lost=tuple(clean(p.message) for p in lost),
        missing=missing,
        not_exercised=not_exercised,
        left_out=len(plan.left_out),
        partial=plan.partial,
        metered=any(r.kernels is not None for r in executed),
    )
    conclusion, code, sentence = conclude(facts)
    return Verdict(
        conclusion=conclusion,
        code=code,
        sentence=sentence,
        counts=counts,
        causes=tuple(j.cause for j in judged),
        not_exercised=not_exercised,
        decisions=(
            Decision(Stage.VERIFY, "change", conclusion.value, code, sentence),
            *_failure_decisions(judged),
            *_elsewhere(before, head),
            *_corrections(why, head),
            *_promotions(head),
            *unexpected_passes(plan, head),
        ),
        warnings=_warnings(problems, missing, plan, before, base, judged),
        groups=group((j.cause, j.whole) for j in judged),
    )


def _elsewhere(before: Sequence[VariantResult], head: Sequence[VariantResult]) -> list[Decision]:
    """What one worker's environment spoilt and another worker ran."""
    found = []
    for old, new in zip(before, head, strict=True):
        fault = fault_of(old) if new is not old else None
        if fault is not None:
            where = f" of {clean(old.worker, NAME)}" if old.worker else ""
            reason = f"{MEANING[fault]}: the result{where} does not count, it ran again elsewhere ({new.outcome.value})"
            fact = (Evidence("result", clean(old.message)),)
            code = "verify-ran-elsewhere"
            found.append(Decision(Stage.VERIFY, clean(old.key, NAME), new.outcome.value, code, reason, fact))
    return found


def _broken_files(
    judge: Judge, head: Sequence[VariantResult], problems: Sequence[ShardProblem], plan: RunPlan
) -> list[Judged]:
    """A judgement for each file that cannot be imported at the head; files nobody planned are only warned about."""
    first: dict[str, TestId] = {}
    for item in plan.tests:
        first.setdefault(item.test.file, item.test)
    found: dict[str, Judged] = {}
    for p in problems:
        if p.side is Side.HEAD and p.kind == "collection" and p.file in first:
            found.setdefault(p.file, judge.file(p, first[p.file]))
    return list(found.values())


def _not_exercised(problems: Sequence[ShardProblem], plan: RunPlan) -> tuple[NotExercised, ...]:
    """What the runtime did not contain by plan, and what the workers then had to leave out of it."""
    known = {item.path for item in plan.not_exercised}
    found: dict[str, NotExercised] = {}
    for p in problems:
        if p.side is Side.HEAD and p.kind == "refused" and p.file not in known:
            found.setdefault(p.file, NotExercised(clean(p.file, NAME), clean(p.message)))
    return (*plan.not_exercised, *found.values())


def _missing(head: Sequence[VariantResult], problems: Sequence[ShardProblem], plan: RunPlan) -> tuple[TestId, ...]:
    """Planned tests without a result that nothing explains: no variant for the device is an explanation."""
    ran = {r.test for r in head}
    explained = {p.file for p in problems if p.side is Side.HEAD and p.kind in ("emptied", "collection")}
    return tuple(
        p.test
        for p in plan.tests
        if p.test not in ran
        and p.codes not in BESIDE  # not reached by the change: it may well have nothing for the device
        and str(p.test) not in explained
        and p.test.file not in explained
    )


def unproven(result: VariantResult) -> bool:
    """A test that skipped itself where success was demanded has shown nothing."""
    return result.outcome is Outcome.SELF_SKIPPED and result.mode is Mode.MANDATORY_SUCCESS


def _counts(head: Sequence[VariantResult], judged: Sequence[Judged]) -> dict[str, int]:
    outcomes = Counter(r.outcome.value for r in head)
    kinds = Counter(j.cause.kind for j in judged)
    executed = [r for r in head if r.outcome not in _NOT_EXECUTED]
    counts = {o.value: outcomes.get(o.value, 0) for o in Outcome}
    counts["engaged"] = sum(1 for r in executed if (r.kernels or 0) > 0)
    counts["unengaged"] = sum(1 for r in executed if r.kernels == 0)
    counts["unproven"] = sum(1 for r in head if unproven(r))
    counts["regressions"] = kinds.get("regression", 0)
    counts["pre_existing"] = kinds.get("pre-existing", 0)
    counts["unconfirmed"] = kinds.get("unconfirmed", 0)
    for kind in ("infrastructure", "conflict", "device-limit", "flaky", "broken-on-trunk"):
        counts[kind.replace("-", "_")] = kinds.get(kind, 0)
    return counts


def _failure_decisions(judged: Sequence[Judged]) -> tuple[Decision, ...]:
    return tuple(
        Decision(
            Stage.VERIFY,
            j.cause.key,
            j.cause.kind,
            j.code,
            j.reason,
            (Evidence("result", j.cause.message),),
            confidence=0.6 if j.cause.kind == "unconfirmed" else 1.0,
        )
        for j in judged
    )


def _corrections(why: dict[TestId, Why], head: Sequence[VariantResult]) -> list[Decision]:
    """Where what ran disagrees with triage. Evidence of this run only: the run may be of an unmerged change."""
    kernels: dict[TestId, list[int]] = {}
    for r in head:
        if r.outcome not in _NOT_EXECUTED and r.kernels is not None:
            kernels.setdefault(r.test, []).append(r.kernels)
    found = []
    for test, seen in sorted(kernels.items()):
        verdicts = {d.verdict for d in why.get(test, Why()).decisions if d.stage is Stage.TRIAGE}
        fact = (Evidence("engagement", f"{sum(seen)} kernels in {count(len(seen), 'variant')} of this run"),)
        name = clean(str(test), NAME)
        if "irrelevant" in verdicts and any(seen):
            reason = "triage called it irrelevant, and it engaged the device"
            found.append(Decision(Stage.VERIFY, name, "relevant", "verify-engaged-after-all", reason, fact))
        elif "relevant" in verdicts and not any(seen):
            reason = "triage called it relevant, and no variant ran a kernel on the device"
            found.append(
                Decision(Stage.VERIFY, name, "unengaged", "verify-never-engaged", reason, fact, confidence=0.8)
            )
    return found


def _promotions(head: Sequence[VariantResult]) -> list[Decision]:
    """Tests whose every executed variant passes although the config expects failure."""
    by_test: dict[TestId, list[VariantResult]] = {}
    for r in head:
        if r.mode in (Mode.XFAIL, Mode.XFAIL_STRICT) and r.outcome not in _NOT_EXECUTED:
            by_test.setdefault(r.test, []).append(r)
    reason = "every variant expected to fail passes in this run"
    return [
        Decision(
            Stage.VERIFY,
            clean(str(test), NAME),
            "promote",
            "verify-promote",
            reason,
            (Evidence("result", f"{count(len(rs), 'variant')} passed"),),
            confidence=0.5,
        )
        for test, rs in sorted(by_test.items())
        if all(r.outcome is Outcome.XPASSED for r in rs)
    ]


def _warnings(
    problems: Sequence[ShardProblem],
    missing: Sequence[TestId],
    plan: RunPlan,
    before: Sequence[VariantResult],
    base: Sequence[VariantResult],
    judged: Sequence[Judged],
) -> tuple[str, ...]:
    out: list[str] = []
    for p in problems:
        name, message = clean(p.file, NAME), clean(p.message)
        if p.kind == "infrastructure":
            out.append(f"a {p.side.value} shard could not be run: {message}")
        elif p.kind == "collection" and p.side is Side.BASE:
            out.append(f"{name} cannot be imported on the base: {message}")
        elif p.kind == "unmatched" and p.side is Side.HEAD:
            out.append(f"{name} was planned, and the file has no such test")
        elif p.kind == "emptied" and p.side is Side.HEAD:
            out.append(f"{name} has no variant for this device: {message}")
    named = {p.file for p in problems if p.kind == "unmatched"}
    silent = [t for t in missing if str(t) not in named]
    out += [f"{clean(str(t), NAME)} was planned, and nothing was reported about it" for t in silent]
    if plan.partial:
        out.append(f"{count(len(plan.left_out), 'relevant test')} left out for the budget")
    spoilt = {(r.worker, fault) for r in before if fails(r) and (fault := fault_of(r)) is not None}
    out += [f"worker {clean(w, NAME)}: {MEANING[fault]}" for w, fault in sorted(spoilt) if w]
    if not base and any(j.code == "verify-unconfirmed" for j in judged):
        out.append("the failures were not compared with the base")
    return tuple(dict.fromkeys(out))
