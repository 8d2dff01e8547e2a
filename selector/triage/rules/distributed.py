"""Tests of several processes, on a device that has no collectives."""

from __future__ import annotations

from selector.triage.subject import Category, Opinion, Ruling, Subject

CODES = ("distributed-unsupported", "distributed-unclear")
_BASES = frozenset(
    {"MultiProcessTestCase", "MultiThreadedTestCase", "DistributedTestBase", "DTensorTestBase", "FSDPTest"}
    | {"MultiProcContinuousTest"}
)


def judge(subject: Subject) -> Opinion | None:
    folder = subject.id.file.startswith("test/distributed/")
    bases = subject.inventory.reach(subject.id.file).foreign_bases(subject.cls.name)
    several = any(base.rpartition(".")[2] in _BASES for base in bases)
    if not (folder or several):
        return None
    fact = subject.place("feature", "lies in test/distributed/" if folder else f"derives from {', '.join(bases)}")
    if subject.capability.features.get("distributed") is False:
        reason = "it tests collectives, which the sheet says the device does not have"
        return Opinion(Ruling.IRRELEVANT, Category.DISTRIBUTED, "distributed-unsupported", reason, (fact,))
    if subject.capability.features.get("distributed"):
        return None
    reason = "it tests collectives; the sheet does not say whether the device has them"
    return Opinion(Ruling.ASK, Category.DISTRIBUTED, "distributed-unclear", reason, (fact,), 0.5)
