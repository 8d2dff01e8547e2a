"""Tests that skip themselves on this machine, or on any device of this kind: they run nothing."""

from __future__ import annotations

import re

from selector.discover.conditions import SKIPS, truth
from selector.discover.records import Decorator
from selector.triage.subject import Opinion, Ruling, Subject

CODES = ("needs-missing", "slow-off", "memory-unknown")

_SLOW = frozenset({"slowTest", "slow_test"})
_FLAG = re.compile(r"^(?:TEST|HAS|IS)_(\w+)$")
_SKIP_IF_NO = re.compile(r"^skip(?:Test)?If(?:No|Not|Missing)(\w+)$")


def judge(subject: Subject) -> Opinion | None:
    for decorator in subject.decorators:
        missing = _missing(decorator, subject.environment.missing)
        if missing:
            fact = subject.place("decorator", f"@{decorator.name}: {', '.join(decorator.args)}", decorator.line)
            reason = f"it skips itself, since there is no {', '.join(sorted(missing))} where the tests run"
            return Opinion(Ruling.IRRELEVANT, None, "needs-missing", reason, (fact,), 0.95)
        if decorator.name in _SLOW and subject.environment.slow is False:
            fact = subject.place("decorator", f"@{decorator.name}", decorator.line)
            reason = "it skips itself, since slow tests are off where the tests run"
            return Opinion(Ruling.IRRELEVANT, None, "slow-off", reason, (fact,), 0.95)
        if decorator.name == "largeTensorTest" and not _names_device(decorator):
            # upstream asks the device's memory for the kinds that it knows, and skips for all others
            fact = subject.place("decorator", f"@largeTensorTest({', '.join(decorator.args)})", decorator.line)
            reason = "it needs so much memory that upstream runs it only where it can ask how much there is"
            return Opinion(Ruling.IRRELEVANT, None, "memory-unknown", reason, (fact,), 0.9)
    return None


def _missing(decorator: Decorator, missing: frozenset[str]) -> set[str]:
    """What is not there and makes the test skip itself."""
    named = _SKIP_IF_NO.match(decorator.name)
    if named:
        return {named[1].lower()} & missing
    absent: set[str] = set()

    def there(flag: str) -> bool | None:
        match = _FLAG.match(flag.rpartition(".")[2])
        if match is None or match[1].lower() not in missing:
            return None
        absent.add(match[1].lower())
        return False

    if decorator.name not in SKIPS or not decorator.args:
        return set()
    return absent if truth(decorator.args[0], there) is (decorator.name == "skipIf") else set()


def _names_device(decorator: Decorator) -> bool:
    return len([a for a in decorator.args if not a.startswith(("size=", "inductor="))]) > 1 or any(
        a.startswith("device=") for a in decorator.args
    )
