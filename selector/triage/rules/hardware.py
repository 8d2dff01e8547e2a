"""Newer upstream classes say for which hardware they are: ``hw_classification = HardwareClassification.CUDA``."""

from __future__ import annotations

from selector.triage.backends import category_of
from selector.triage.subject import Opinion, Ruling, Subject

CODES = ("hardware-other",)
_OPEN = frozenset({"", "?", "GENERIC", "ACCELERATOR"})


def judge(subject: Subject) -> Opinion | None:
    declared = subject.cls.hardware
    if declared in _OPEN or declared.lower() in subject.let_in:
        return None
    fact = subject.place("hardware", f"{subject.cls.name} declares itself for {declared}", subject.cls.line)
    reason = f"its class is for {declared} only"
    return Opinion(Ruling.IRRELEVANT, category_of([declared.lower()]), "hardware-other", reason, (fact,))
