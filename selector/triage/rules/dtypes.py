"""Tests whose every dtype is one that cannot live on the device: they generate nothing."""

from __future__ import annotations

from selector.discover.records import UNKNOWN
from selector.triage.subject import Opinion, Ruling, Subject

CODES = ("dtypes-unsupported",)


def judge(subject: Subject) -> Opinion | None:
    if not subject.cls.instantiated or any(d.name == "dtypesIfPRIVATEUSE1" for d in subject.test.decorators):
        return None
    use = subject.test.ops or subject.test.modules
    wanted = subject.test.dtypes if use is None else use.dtypes
    if not wanted or UNKNOWN in wanted:
        return None
    if any(subject.capability.supports_dtype(name) for name in (*wanted, *subject.lifts.dtypes)):
        return None
    line = next((d.line for d in subject.test.decorators if d.name in ("dtypes", "ops", "modules")), None)
    fact = subject.place("capability", f"{subject.capability.name} has none of {', '.join(wanted)}", line)
    reason = f"it is for {', '.join(wanted)} only, which {subject.capability.device} does not have"
    return Opinion(Ruling.IRRELEVANT, None, "dtypes-unsupported", reason, (fact,), 0.9)
