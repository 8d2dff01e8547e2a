"""From one look at the base to a judgement: re-runs, other labs, and what is known of trunk.

Whoever is exonerated is so for a reason that is named, and by runs without the change: its own re-runs can only make a
verdict neutral.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from selector.configs.propose import limit_of
from selector.discover.findings import EDITED_CODES
from selector.model import Outcome, Side, VariantResult
from selector.verify.again import Again, shared_finding
from selector.verify.causes import signature
from selector.verify.faults import fault_of
from selector.verify.flakes import Finding, Tally, error_bound
from selector.verify.judge import NEW_CODES, Judge, Judged, fails
from selector.verify.trusted import Trusted


def device_limit(result: VariantResult) -> str | None:
    """What the device cannot do, in the failure's own words; None for every other failure."""
    if result.outcome not in (Outcome.FAILED, Outcome.ERROR) or fault_of(result) is not None:
        return None
    limit = limit_of({"outcome": result.outcome.value, "message": result.message})
    return limit[1] if limit else None


class Court:
    """Judges every failing result of the head. ``again`` None: nothing is ever run again here, and one look decides."""

    def __init__(
        self, judge: Judge, head: Sequence[VariantResult], again: Again | None, trusted: Trusted | None
    ) -> None:
        self.judge, self.again, self.trusted = judge, again, trusted or Trusted()
        self.suspects = [r for r in head if fails(r) and fault_of(r) is None and judge.suspect(r)]

    def variant(self, result: VariantResult) -> Judged:
        """The judgement of one failing head result."""
        first = self.judge.variant(result)
        if first.cause.kind == "infrastructure":
            return first
        limit = device_limit(result)
        edited = not EDITED_CODES.isdisjoint(first.cause.codes)
        if limit and edited and first.code in ("verify-regression", "verify-new-test-fails"):
            reason = f"the change edits the test, which now {limit}"
            return self.judge.judged(result, "verify-device-limit", reason)
        divided = self._conflict(result) if first.cause.kind != "pre-existing" else None
        if divided:
            return self.judge.judged(result, "verify-lab-conflict", divided)
        if first.code == "verify-unconfirmed":
            return self._known_of_trunk(result, first)
        if self.again is not None and self.judge.suspect(result):
            return self._by_reruns(result, first, self.again)
        if first.cause.kind == "pre-existing":
            return replace(first, reason=first.reason + self.trusted.origin(result.key))
        return first

    # -------------------------------------------------------------------------------------------------------- re-runs

    def _by_reruns(self, result: VariantResult, first: Judged, again: Again) -> Judged:
        key = result.key
        finding: Finding = again.finding(key)
        if finding in ("lost", "more") and key not in again.keys:
            finding = shared_finding(again, self.suspects, result)
            if finding == "broken":
                reason = f"{first.reason}; re-runs of other failures with its cause blame the change"
                return replace(self._guilty(result, first), reason=reason)
        head, base = again.tally(Side.AGAIN, key), again.tally(Side.BASE_AGAIN, key)
        told = f"alone, in fresh processes: {_of(head)} with the change, {_of(base)} without it"
        if finding == "broken":
            if head.failures == head.runs:
                reason = f"{first.reason}; {told}"
                return replace(self._guilty(result, first), reason=reason)
            reason = f"fails far more often than without the change ({told})"
            return self.judge.judged(result, "verify-made-flaky", reason)
        if finding in ("flaky", "more") and base.failures:
            if base.failures == base.runs:
                reason = f"fails without the change as well ({told})"
                return self.judge.judged(result, "verify-pre-existing", reason)
            reason = f"fails now and then without the change as well ({told}; {_bound()})"
            return self.judge.judged(result, "verify-flaky", reason)
        return self._not_blamed(result, finding, told)

    def _guilty(self, result: VariantResult, first: Judged) -> Judged:
        if first.counts:
            return first
        # it failed on the base too, once, for another reason
        reason = "fails with this change for a reason that the base's failure does not have"
        return self.judge.judged(result, "verify-regression", reason)

    def _not_blamed(self, result: VariantResult, finding: Finding, told: str) -> Judged:
        """It passed when it ran again, or failed too seldom to blame the change: who vouches that it does so anyway?"""
        known = self._known_flaky(result)
        if known and finding != "lost":
            return self.judge.judged(result, known[0], f"{known[1]} ({told})")
        if finding == "lost":
            reason = f"its re-runs did not take place, so that chance is not excluded ({told})"
            return self.judge.judged(result, "verify-unconfirmed", reason)
        what = "passed when it ran again" if finding == "passes-alone" else "fails now and then with the change"
        reason = f"{what}; nothing says that it also fails without it ({told}; {_bound()})"
        return self.judge.judged(result, "verify-flaky-unproven", reason)

    def _known_flaky(self, result: VariantResult) -> tuple[str, str] | None:
        entry = self.trusted.quarantine(result)
        if entry is not None:
            issue = f", {entry.issue}" if entry.issue else ""
            return "verify-quarantined", f"in quarantine: {entry.reason}{issue}"
        flaky = self.trusted.flaky(result.key)
        return ("verify-flaky-on-trunk", f"known to fail now and then: {flaky}") if flaky else None

    # ------------------------------------------------------------------------------------------------- trunk and labs

    def _known_of_trunk(self, result: VariantResult, first: Judged) -> Judged:
        """No result of the base: trunk's other commits may tell."""
        broken = self.trusted.broken(result.key, signature(result))
        if broken:
            reason = f"broken on trunk: {broken}{self.trusted.origin(result.key)}"
            return self.judge.judged(result, "verify-broken-on-trunk", reason)
        known = self._known_flaky(result)
        if known:
            return self.judge.judged(result, known[0], known[1])
        limit = device_limit(result)
        if limit and not NEW_CODES.isdisjoint(first.cause.codes):
            reason = f"the test is new in this change and {limit}"
            return self.judge.judged(result, "verify-device-limit", reason)
        return first

    def _conflict(self, result: VariantResult) -> str | None:
        """Labs that disagree about the head, or no lab that ran both sides."""
        again = self.again.of(Side.AGAIN, result.key) if self.again else ()
        head: dict[str, list[bool]] = {}
        for run in (result, *again):
            if run.lab:
                head.setdefault(run.lab, []).append(fails(run))
        failing = sorted(lab for lab, seen in head.items() if all(seen))
        passing = sorted(lab for lab, seen in head.items() if len(seen) > 1 and not any(seen))
        if failing and passing:
            return (
                f"the labs disagree: fails in {failing[0]} ({len(head[failing[0]])} runs), "
                f"passes in {passing[0]} ({len(head[passing[0]])} runs)"
            )
        base = self.judge.base.get(result.key)
        runs = self.again.of(Side.BASE_AGAIN, result.key) if self.again else ()
        labs = {run.lab for run in (*([base] if base is not None else []), *runs) if run.lab}
        if labs and head and labs.isdisjoint(head):
            return f"not compared within one lab: the change ran in {min(head)}, the base in {min(labs)}"
        return None


def _of(tally: Tally) -> str:
    return f"failed {tally.failures} of {tally.runs}"


def _bound() -> str:
    return f"a change is blamed for another's flake in at most {error_bound():.1%} of such cases"
