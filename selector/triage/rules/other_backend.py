"""A change to another device's kernels cannot reach this one."""

from __future__ import annotations

from selector.discover.filekinds import backend_of
from selector.triage.subject import Category, Opinion, Ruling, Subject

CODES = ("change-other-backend",)


def judge(subject: Subject) -> Opinion | None:
    if subject.impact.codes != ("op-kernel-other-backend",):
        return None
    backends = sorted({backend_of(fact.path or "") for fact in subject.impact.evidence} - {""})
    if not backends or set(backends) & subject.device_names:
        return None
    reason = f"the change reaches it through kernels that are compiled for {', '.join(backends)} only"
    return Opinion(
        Ruling.IRRELEVANT, Category.OTHER_BACKEND, "change-other-backend", reason, subject.impact.evidence[:3], 0.95
    )
