"""One failing variant: the change's fault, somebody else's, or not known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from selector.model import FAILED, Cause, Decision, Mode, Outcome, RunPlan, Side, Stage, TestId, VariantResult
from selector.verify.causes import signature
from selector.verify.faults import MEANING, environment_fault, fault_of
from selector.verify.judgements import BLAMES, JUDGEMENTS
from selector.verify.model import ShardProblem, Why
from selector.verify.text import MESSAGE, NAME, clean

NEW_CODES = frozenset(("new-test",))
_PLAIN = frozenset(FAILED)
_RAN_WELL = frozenset((Outcome.PASSED, Outcome.XFAILED, Outcome.XPASSED))


@dataclass(frozen=True, slots=True)
class Judged:
    """A cause with its reason code; ``counts``: it makes the verdict a failure."""

    cause: Cause
    code: str
    counts: bool
    reason: str
    whole: str = ""
    """the message as it came, of which the cause shows a part"""


def fails(result: VariantResult) -> bool:
    """Whether the outcome is a failure: also an unexpected pass of a strict xfail."""
    if result.outcome in _PLAIN:
        return True
    return result.outcome is Outcome.XPASSED and result.mode is Mode.XFAIL_STRICT


def needs_base(head: Sequence[VariantResult]) -> tuple[str, ...]:
    """Keys (``file::Class::variant``) of the failing variants that must run on the base before anything is said.

    Failures of the environment are not among them: they are nobody's, whatever the base does.
    """
    return tuple(sorted({r.key for r in head if r.side is Side.HEAD and fails(r) and fault_of(r) is None}))


def needs_base_tests(head: Sequence[VariantResult], problems: Sequence[ShardProblem], plan: RunPlan) -> list[TestId]:
    """One planned test, the cheapest, of each file that could not be imported at the head: whether the file can be
    imported on the base decides whose fault that is."""
    ran = {r.test.file for r in head}
    broken = {p.file for p in problems if p.side is Side.HEAD and p.kind == "collection" and p.file not in ran}
    chosen: dict[str, tuple[float, TestId]] = {}
    for item in plan.tests:
        if item.test.file in broken:
            best = chosen.get(item.test.file)
            chosen[item.test.file] = min(best or (item.est_seconds, item.test), (item.est_seconds, item.test))
    return sorted(test for _, test in chosen.values())


class Judge:
    """Compares failures with the base. ``whys`` say why each test was selected."""

    def __init__(
        self,
        whys: Mapping[TestId, Why],
        base: Sequence[VariantResult],
        problems: Sequence[ShardProblem],
    ) -> None:
        self.whys = whys
        self.base = {r.key: r for r in base}
        self.base_tests = {r.test for r in base}
        self.base_files = {r.test.file for r in base}
        base_problems = [p for p in problems if p.side is Side.BASE]
        self.base_broken = {p.file for p in base_problems if p.kind == "collection"}
        self.base_missing = {p.file for p in base_problems if p.kind == "unmatched"}
        self.base_lost = any(p.kind == "infrastructure" for p in base_problems)
        self.base_ran = bool(base or self.base_missing or self.base_broken) and not self.base_lost

    def suspect(self, result: VariantResult) -> bool:
        """Whether one look at the base says, or cannot say, that the change broke it: then it is run again."""
        before = self.base.get(result.key)
        if before is None or before.outcome in (Outcome.SKIPPED, Outcome.SELF_SKIPPED):
            return False
        return not fails(before) or fault_of(before) is not None or signature(before) != signature(result)

    def variant(self, result: VariantResult) -> Judged:
        """The judgement of one failing head result by one look at the base."""
        fault = fault_of(result)
        if fault is not None:
            return self.judged(result, "verify-infrastructure", MEANING[fault])
        before = self.base.get(result.key)
        if before is None or before.outcome in (Outcome.SKIPPED, Outcome.SELF_SKIPPED):
            return self._without_base(result, before)
        if fault_of(before) is not None and before.outcome not in _RAN_WELL:
            reason = "the comparison run on the base failed for a reason of its environment"
            return self.judged(result, "verify-unconfirmed", reason)
        if fails(before):
            reason = f"fails on the base as well ({before.outcome.value})"
            return self.judged(result, "verify-pre-existing", reason)
        if result.outcome is Outcome.XPASSED:
            reason = "passes with this change though the config says xfail_strict: the entry is to be promoted"
            return self.judged(result, "verify-xpassed-strict", reason)
        reason = f"{before.outcome.value} on the base, {result.outcome.value} with this change"
        return self.judged(result, "verify-regression", reason)

    def _without_base(self, result: VariantResult, before: VariantResult | None) -> Judged:
        test = result.test
        codes = self.whys.get(test, Why()).codes
        if before is not None:
            reason = f"was not executed on the base ({before.outcome.value}), so there is nothing to compare with"
            return self.judged(result, "verify-unconfirmed", reason)
        new = not NEW_CODES.isdisjoint(codes)
        if test.file in self.base_broken and test.file not in self.base_files and not new:
            reason = "the test's file cannot be imported on the base, so there is nothing to compare with"
            return self.judged(result, "verify-unconfirmed", reason)
        if self.base_ran and (new or str(test) in self.base_missing):
            reason = "the test is new in this change and fails; the base ran and does not have it"
            return self.judged(result, "verify-new-test-fails", reason)
        if self.base_ran and test in self.base_tests:
            reason = "the variant is new in this change and fails; the base ran the test and does not have the variant"
            return self.judged(result, "verify-new-test-fails", reason)
        reason = "there is no result of the base to compare with"
        return self.judged(result, "verify-unconfirmed", reason)

    def file(self, problem: ShardProblem, test: TestId) -> Judged:
        """The judgement of a file that cannot be imported at the head; ``test`` stands for its planned tests."""
        stand_in = VariantResult(test, test.method, Outcome.ERROR, message=problem.message)
        fault = environment_fault(problem.message)
        if fault is not None:
            judged = self.judged(stand_in, "verify-infrastructure", MEANING[fault])
        elif (problem.file in self.base_files or self._imported(problem.file)) and not self.base_lost:
            reason = "the file cannot be imported with this change, and can be on the base"
            judged = self.judged(stand_in, "verify-import-regression", reason)
        elif problem.file in self.base_broken:
            reason = "the file cannot be imported on the base either"
            judged = self.judged(stand_in, "verify-pre-existing", reason)
        else:
            reason = "the file cannot be imported with this change; the base was not asked"
            judged = self.judged(stand_in, "verify-unconfirmed", reason)
        message = clean(f"{problem.file} cannot be imported: {problem.message}")
        return replace(judged, cause=replace(judged.cause, key=clean(problem.file, NAME), message=message))

    def _imported(self, file: str) -> bool:
        """Whether the base imported the file, although it has none of the tests that were asked for."""
        return file not in self.base_broken and any(name.startswith(f"{file}::") for name in self.base_missing)

    def judged(self, result: VariantResult, code: str, reason: str) -> Judged:
        """A judgement with all that the verdict shows of the failure. ``code``: one of the JUDGEMENTS."""
        why = self.whys.get(result.test, Why())
        message = result.message or result.reason or result.outcome.value
        selected = next((d for d in why.decisions if d.stage is Stage.DISCOVER), None)
        cause = Cause(
            key=clean(result.key, NAME),
            test=result.test,
            kind=JUDGEMENTS[code],
            outcome=result.outcome,
            message=clean(message, MESSAGE),
            codes=why.codes,
            changes=changes_of(why.decisions),
            why_selected=clean(selected.reason if selected else ", ".join(why.codes), MESSAGE),
        )
        return Judged(cause, code, code in BLAMES, reason, message)


def changes_of(decisions: Sequence[Decision], limit: int = 8) -> tuple[str, ...]:
    """``path`` or ``path:symbol`` of the selecting evidence, in its order."""
    found: dict[str, None] = {}
    for decision in decisions:
        if decision.stage is not Stage.DISCOVER:
            continue
        for fact in decision.evidence:
            if fact.path:
                found.setdefault(clean(f"{fact.path}:{fact.symbol}" if fact.symbol else fact.path, NAME))
    return tuple(found)[:limit]
