"""A test that is skipped without a condition never runs anywhere."""

from __future__ import annotations

from selector.triage.subject import Opinion, Ruling, Subject

CODES = ("always-skipped",)


def judge(subject: Subject) -> Opinion | None:
    for decorator in subject.decorators:
        if decorator.name == "skip":
            why = decorator.args[0] if decorator.args else "no reason given"
            fact = subject.place("decorator", f"@skip: {why}", decorator.line)
            reason = "upstream skips it without a condition"
            return Opinion(Ruling.IRRELEVANT, None, "always-skipped", reason, (fact,))
    return None
