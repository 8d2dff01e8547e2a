"""The conclusion and the one line people read: which fact decides, and how it is said."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from selector.model import Conclusion, NotExercised, TestId
from selector.verify.judge import Judged
from selector.verify.judgements import BLAMES
from selector.verify.text import clean, count

SENTENCE = 500


@dataclass(frozen=True, slots=True)
class Facts:
    """What a conclusion is drawn from. ``passed`` and ``executed`` are variants; ``tests`` those that executed."""

    judged: tuple[Judged, ...]
    counts: Mapping[str, int]
    tests: int
    planned: int
    executed: int
    passed: int
    lost: tuple[str, ...]
    missing: tuple[TestId, ...]
    not_exercised: tuple[NotExercised, ...]
    left_out: int
    partial: bool
    metered: bool

    def of(self, *codes: str) -> list[Judged]:
        return [j for j in self.judged if j.code in codes]

    @property
    def infrastructure(self) -> list[Judged]:
        return [j for j in self.judged if j.cause.kind == "infrastructure"]


def conclude(facts: Facts) -> tuple[Conclusion, str, str]:
    """(conclusion, code, sentence). The first rule that applies decides; the others are added as short clauses."""
    guilty = [j for j in facts.judged if j.counts]
    if guilty:
        said = _failure(guilty) + _also(facts, skip="failure")
        return Conclusion.FAILURE, _failure_code(guilty), clean(said, SENTENCE)
    for applies, code, say in _NEUTRAL:
        if applies(facts):
            return Conclusion.NEUTRAL, code, clean(say(facts) + _also(facts, skip=code), SENTENCE)
    return Conclusion.SUCCESS, "verify-passed", clean(_success(facts) + _also(facts, skip="success"), SENTENCE)


def _failure_code(guilty: Sequence[Judged]) -> str:
    codes = {j.code for j in guilty}
    return next(code for code in BLAMES if code in codes)


def _failure(guilty: Sequence[Judged]) -> str:
    worse = [j for j in guilty if j.code in ("verify-regression", "verify-import-regression")]
    new = [j for j in guilty if j.code == "verify-new-test-fails"]
    strict = [j for j in guilty if j.code == "verify-xpassed-strict"]
    rough = [j for j in guilty if j.code == "verify-made-flaky"]
    parts = []
    if worse:
        parts.append(f"{_tests(worse)} {_verb(worse, 'pass', 'passes')} without this change and fail with it")
    if rough:
        parts.append(f"{_tests(rough)} {_verb(rough, 'fail', 'fails')} now and then, and did not without this change")
    if new:
        parts.append(f"{_tests(new)} new in this change {_verb(new, 'fail', 'fails')}")
    if strict:
        parts.append(f"{_tests(strict)} expected to fail {_verb(strict, 'pass', 'passes')} with this change")
    if worse and _number(worse) == 1:
        parts[0] = f"{_tests(worse)} passes without this change and fails with it"
    return "; ".join(parts) + "; first: " + _first(guilty[0])


def _first(judged: Judged) -> str:
    # one line on a pull request: the file, the change it comes from and the whole message are a click away
    cause = judged.cause
    return f"{clean(cause.key.partition('::')[2] or cause.key, 120)} ({clean(cause.message, 110)})"


def _number(judged: Sequence[Judged]) -> int:
    return len({j.cause.test for j in judged})


def _verb(judged: Sequence[Judged], many: str, one: str) -> str:
    return one if _number(judged) == 1 else many


def _tests(judged: Sequence[Judged]) -> str:
    tests = _number(judged)
    text = count(tests, "test")
    return text if len(judged) == tests else f"{text} ({count(len(judged), 'variant')})"


def _infrastructure(facts: Facts) -> str:
    broken = facts.infrastructure
    if broken:
        first = broken[0]
        reason = f"{first.reason}; first: {_first(first)}"
        return f"Not this change's fault: {_tests(broken)} failed for the worker's environment: {reason}"
    return f"{count(len(facts.lost), 'shard')} could not be run: {facts.lost[0]}"


def _nothing_ran(facts: Facts) -> str:
    if not facts.planned:
        said = "Nothing to run: the change reaches no test that this device's configs run"
        why = next(iter(facts.not_exercised), None)
        return f"{said} ({clean(why.path, 160)}: {clean(why.reason, 160)})" if why else said
    unproven = facts.counts.get("unproven", 0)
    if unproven:
        return f"Nothing was shown: all of the {count(unproven, 'variant')} skipped themselves"
    return f"Nothing was shown: {count(facts.planned, 'test')} planned, no variant executed"


def _unconfirmed(facts: Facts) -> str:
    open_ = facts.of("verify-unconfirmed")
    verb = _verb(open_, "fail", "fails")
    return f"{_tests(open_)} {verb} with this change, not compared with the base; first: {_first(open_[0])}"


def _conflict(facts: Facts) -> str:
    divided = facts.of("verify-lab-conflict")
    return f"{_tests(divided)}: {divided[0].reason}; first: {_first(divided[0])}"


def _flaky_unproven(facts: Facts) -> str:
    shaky = facts.of("verify-flaky-unproven")
    verb = _verb(shaky, "do", "does")
    said = f"{_tests(shaky)} failed and {verb} not, or seldom, when run again; not known to be flaky without it"
    return f"{said}; first: {_first(shaky[0])}"


def _device_limit(facts: Facts) -> str:
    limited = facts.of("verify-device-limit")
    said = f"{_tests(limited)} now {_verb(limited, 'need', 'needs')} what the device lacks"
    return f"{_ran(facts)}, but {said}; first: {_first(limited[0])}"


def _incomplete(facts: Facts) -> str:
    first = clean(str(facts.missing[0]), 160)
    return f"{count(len(facts.missing), 'planned test')} gave no result (first: {first}); {_ran(facts)}"


def _not_exercised(facts: Facts) -> str:
    files = facts.not_exercised
    what = f"{count(len(files), 'changed file')} {'was' if len(files) == 1 else 'were'} not exercised"
    return f"{_ran(facts)}, but {what}: {clean(files[0].path, 160)} ({clean(files[0].reason, 160)})"


def _partial(facts: Facts) -> str:
    return f"{_ran(facts)}, but {count(facts.left_out, 'relevant test')} had no room in the budget"


def _unengaged(facts: Facts) -> str:
    how = "none of them ran a kernel on the device" if facts.metered else "whether they used the device was not counted"
    return f"{_ran(facts)}, but {how}"


def _only_old(facts: Facts) -> str:
    return f"Nothing passed: {_tests(facts.judged)} {_verb(facts.judged, 'fail', 'fails')} without this change too"


def _ran(facts: Facts) -> str:
    return f"{count(facts.tests, 'test')} ({count(facts.executed, 'variant')}) ran, nothing new fails"


def _success(facts: Facts) -> str:
    return f"{count(facts.tests, 'test')} ({count(facts.executed, 'variant')}) ran on the device, nothing new fails"


_NEUTRAL: tuple[tuple[Callable[[Facts], bool], str, Callable[[Facts], str]], ...] = (
    (lambda f: bool(f.infrastructure or f.lost), "verify-infrastructure", _infrastructure),
    (lambda f: bool(f.of("verify-lab-conflict")), "verify-lab-conflict", _conflict),
    (lambda f: bool(f.of("verify-unconfirmed")), "verify-unconfirmed", _unconfirmed),
    (lambda f: bool(f.of("verify-flaky-unproven")), "verify-flaky-unproven", _flaky_unproven),
    (lambda f: not f.planned, "verify-nothing-to-run", _nothing_ran),
    (lambda f: bool(f.missing), "verify-incomplete", _incomplete),
    (lambda f: not f.executed, "verify-nothing-ran", _nothing_ran),
    (lambda f: not f.passed, "verify-nothing-passed", _only_old),
    (lambda f: bool(f.not_exercised), "verify-not-exercised", _not_exercised),
    (lambda f: bool(f.of("verify-device-limit")), "verify-device-limit", _device_limit),
    (lambda f: f.partial, "verify-partial", _partial),
    (lambda f: not f.counts.get("engaged"), "verify-unengaged", _unengaged),
)


CONCLUSIONS: tuple[str, ...] = ("verify-passed", *BLAMES, *(code for _, code, _ in _NEUTRAL))
"""The codes of all verdicts."""


def _also(facts: Facts, skip: str) -> str:
    """The other facts that a reader must know, as clauses."""
    clauses = []
    old = [j for j in facts.judged if j.cause.kind == "pre-existing"]
    if old and skip != "verify-nothing-passed":
        clauses.append(f"{_tests(old)} {_verb(old, 'fail', 'fails')} without it too")
    trunk = [j for j in facts.judged if j.cause.kind == "broken-on-trunk"]
    if trunk:
        clauses.append(f"{_tests(trunk)} {_verb(trunk, 'fail', 'fails')} on trunk too")
    flaky = [j for j in facts.judged if j.cause.kind == "flaky"]
    if flaky:
        clauses.append(f"{_tests(flaky)} {_verb(flaky, 'are', 'is')} known to be flaky")
    limited = facts.of("verify-device-limit")
    if limited and skip != "verify-device-limit":
        clauses.append(f"{_tests(limited)} {_verb(limited, 'need', 'needs')} what the device lacks")
    divided = facts.of("verify-lab-conflict")
    if divided and skip != "verify-lab-conflict":
        clauses.append(f"the labs disagree about {_tests(divided)}")
    shaky = facts.of("verify-flaky-unproven")
    if shaky and skip != "verify-flaky-unproven":
        clauses.append(f"{_tests(shaky)} failed once and may be flaky")
    if facts.infrastructure and skip != "verify-infrastructure":
        clauses.append(f"{_tests(facts.infrastructure)} could not be judged for the worker's environment")
    if facts.lost and skip != "verify-infrastructure":
        clauses.append(f"{count(len(facts.lost), 'shard')} could not be run")
    open_ = facts.of("verify-unconfirmed")
    if open_ and skip != "verify-unconfirmed":
        clauses.append(f"{_tests(open_)} not confirmed")
    if facts.not_exercised and skip != "verify-not-exercised":
        clauses.append(f"{count(len(facts.not_exercised), 'changed file')} not exercised")
    if facts.partial and skip != "verify-partial":
        clauses.append(f"{count(facts.left_out, 'test')} left out for the budget")
    unproven = facts.counts.get("unproven", 0)
    if unproven and skip != "verify-nothing-ran":
        itself = "themselves" if unproven > 1 else "itself"
        clauses.append(f"{count(unproven, 'variant')} skipped {itself}")
    idle = facts.counts.get("unengaged", 0)
    if idle and facts.counts.get("engaged") and skip != "failure":
        clauses.append(f"{count(idle, 'variant')} never touched the device")
    return f". {'; '.join(clauses)}" if clauses else ""
