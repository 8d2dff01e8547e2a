"""A test that is skipped without a condition never runs anywhere."""

from __future__ import annotations

from selector.discover.conditions import SKIPS
from selector.triage.subject import Opinion, Ruling, Subject

CODES = ("always-skipped",)
_ALWAYS = {"skipIf": "True", "skipUnless": "False"}


def judge(subject: Subject) -> Opinion | None:
    for decorator in subject.decorators:
        always = decorator.name in SKIPS and decorator.args[:1] == (_ALWAYS[decorator.name],)
        if decorator.name == "skip" or always:
            why = decorator.args[1:2] if always else decorator.args
            fact = subject.place("decorator", f"@{decorator.name}: {why[0] if why else 'no reason'}", decorator.line)
            reason = "upstream skips it without a condition"
            return Opinion(Ruling.IRRELEVANT, None, "always-skipped", reason, (fact,))
    return None
