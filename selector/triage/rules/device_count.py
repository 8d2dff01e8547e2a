"""``@deviceCountAtLeast(2)``: more devices than a worker has."""

from __future__ import annotations

from selector.triage.subject import Opinion, Ruling, Subject

CODES = ("too-few-devices",)


def judge(subject: Subject) -> Opinion | None:
    have = subject.capability.limits.get("devices")
    for decorator in subject.decorators:
        if decorator.name == "deviceCountAtLeast" and decorator.args and decorator.args[0].isdigit():
            needed = int(decorator.args[0])
            fact = subject.place("decorator", f"@deviceCountAtLeast({needed})", decorator.line)
            if isinstance(have, int) and needed > have:
                reason = f"it needs {needed} devices, the sheet says {have}"
                return Opinion(Ruling.IRRELEVANT, None, "too-few-devices", reason, (fact,))
            if needed > 1 and not isinstance(have, int):
                reason = f"it needs {needed} devices, the sheet does not say how many there are"
                return Opinion(Ruling.ASK, None, "too-few-devices", reason, (fact,), 0.5)
    return None
