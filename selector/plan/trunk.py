"""Reads how a test stands on trunk out of its runs there.

What an environment spoilt is no run. A config's xfail that fails counts as failing: what is asked is what the test
does, not what was expected of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from selector.configs.propose import limit_of
from selector.model import Outcome, VariantResult
from selector.plan.standing import EXPECTS_FAILURE, Run, Standing
from selector.plan.tolerance import needed
from selector.verify.faults import fault_of, told_fault
from selector.verify.judge import fails

_EXECUTED_NOT = (Outcome.SKIPPED, Outcome.SELF_SKIPPED)


def standing(runs: Sequence[Run]) -> Standing | None:
    """Of one test, by its runs of trunk, newest first; None where none of them showed anything."""
    kept = tuple(run for run in map(_without_faults, runs) if run.results)
    if not kept:
        return None
    bad = [_fell_in(run) for run in kept]
    streak = bad.index(False) if False in bad else len(bad)
    newest = kept[:streak] or kept
    commits = len({run.commit for run in newest})
    results = [r for run in kept for r in run.results]
    expected = sum(r.mode in EXPECTS_FAILURE for r in results)
    failed = tuple(r for r in results if _fell(r))
    if expected == len(results) and not any(bad):
        return Standing("promotable", kept, commits=commits)
    if not any(bad):
        return Standing("as-expected" if expected else "passes", kept, commits=commits)
    fallen = [{r.key for r in run.results if _fell(r)} for run in kept[:streak]]
    found = Standing(
        "as-expected",
        kept,
        sum(bad),
        streak,
        commits,
        failed,
        bool(streak) and all(_fell(r) for run in kept[:streak] for r in run.results),
        any(run.full for run in kept[:streak]),
        tuple(sorted(frozenset.intersection(*map(frozenset, fallen)))) if fallen else (),
    )
    if expected:
        return found
    if streak < len(bad):
        turned = any(bad[streak:]) or not streak
        return replace(found, kind="comes-and-goes" if turned else "broke")
    limits = [_limit(r) for r in failed]
    if all(limits):
        return replace(found, kind="limit", limits=tuple(limit for limit in limits if limit))
    close = needed(r.message for r in failed)
    return replace(found, kind="rough" if close is not None else "fails", close=close)


def _without_faults(run: Run) -> Run:
    kept = [r for r in run.results if r.outcome not in _EXECUTED_NOT and not (fails(r) and fault_of(r))]
    # an xfail that "failed" for want of a compiler has shown nothing either
    return replace(run, results=[r for r in kept if told_fault(r) is None])


def _fell_in(run: Run) -> bool:
    return any(map(_fell, run.results))


def _fell(result: VariantResult) -> bool:
    return fails(result) or result.outcome is Outcome.XFAILED


def _limit(result: VariantResult) -> tuple[str, str] | None:
    if told_fault(result) is not None:
        return None
    return limit_of({"outcome": result.outcome.value, "message": result.message})
