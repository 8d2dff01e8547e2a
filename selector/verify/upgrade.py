"""What running a test on both releases showed: a regression, or a newcomer that never passed, or neither.

Where nothing ran on the old side nothing is claimed: a test that fails there unseen is not called a regression.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from selector.model import Outcome, TestId, VariantResult
from selector.verify.faults import fault_of
from selector.verify.judge import fails

Standing = Literal[
    "regression", "newcomer-fails", "fails-on-both", "unknown", "environment", "fixed", "passes", "not-run"
]
STANDINGS: tuple[Standing, ...] = get_args(Standing)
"""worst first. ``regression``: fails, and passed on the old release; ``newcomer-fails``: fails, and the old release had
no such test or variant; ``fails-on-both``; ``unknown``: fails, and the old release has it but gave no result;
``environment``: the machine's fault, nobody's; ``fixed``: passes, and failed before; ``not-run``: no result,
or skipped"""
_NOTHING = frozenset({Outcome.SKIPPED, Outcome.SELF_SKIPPED})


@dataclass(frozen=True, slots=True)
class Stood:
    """One test on both releases. ``variants``: those that stand as it does; ``message``: the first failure's."""

    test: TestId
    standing: Standing
    variants: tuple[str, ...]
    message: str = ""


def stand(
    tests: Iterable[TestId], was: Mapping[TestId, TestId], new: Iterable[VariantResult], old: Iterable[VariantResult]
) -> list[Stood]:
    """Every test of ``tests``, in its order. ``was``: the old release's test of those that it has; ``new``, ``old``:
    results of both releases, each by the ids that the release has."""
    now, before = _by_test(new), _by_test(old)
    return [_test(test, was.get(test), now.get(test, {}), before) for test in tests]


def counts(stood: Iterable[Stood]) -> dict[str, int]:
    """Tests by standing, all of them, worst first."""
    found = Counter[str](one.standing for one in stood)
    return {standing: found[standing] for standing in STANDINGS}


def _by_test(results: Iterable[VariantResult]) -> dict[TestId, dict[str, VariantResult]]:
    """test -> variant -> its worst result: of repeats, one failure is one."""
    found: dict[TestId, dict[str, VariantResult]] = defaultdict(dict)
    for one in results:
        known = found[one.test].get(one.variant)
        if known is None or (fails(one) and not fails(known)):
            found[one.test][one.variant] = one
    return found


def _test(
    test: TestId,
    was: TestId | None,
    now: Mapping[str, VariantResult],
    before: Mapping[TestId, Mapping[str, VariantResult]],
) -> Stood:
    old = before.get(was, {}) if was is not None else {}
    standings: dict[Standing, list[VariantResult]] = defaultdict(list)
    for variant, result in sorted(now.items()):
        known = old.get(_called(variant, test, was))
        standings[_variant(result, known, has_test=was is not None, ran=bool(old))].append(result)
    for standing in STANDINGS:
        if standings[standing]:
            shown = standings[standing]
            message = next((one.message for one in shown if one.message), "") or ""
            return Stood(test, standing, tuple(one.variant for one in shown), message[:2000])
    return Stood(test, "not-run", ())


def _variant(result: VariantResult, known: VariantResult | None, *, has_test: bool, ran: bool) -> Standing:
    if result.outcome in _NOTHING:
        return "not-run"
    failed = fails(result)
    if failed and fault_of(result) is not None:
        return "environment"
    spoilt = known is not None and (known.outcome in _NOTHING or (fails(known) and fault_of(known) is not None))
    if known is None or spoilt:
        if not failed:
            return "passes"
        # a test that ran there without this variant did not have it
        return "newcomer-fails" if not has_test or (ran and known is None) else "unknown"
    if fails(known):
        return "fails-on-both" if failed else "fixed"
    return "regression" if failed else "passes"


def _called(variant: str, test: TestId, was: TestId | None) -> str:
    """The variant's name in the old release: generated names begin with the method's."""
    if was is None or was.method == test.method or not variant.startswith(test.method):
        return variant
    return was.method + variant[len(test.method) :]
