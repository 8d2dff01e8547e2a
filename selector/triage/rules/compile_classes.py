"""On trial: tests of upstream's compiler whose classes are made for no device type. Rules call them free of the device;
a compiler's backend may come in by a default that no test names."""

from __future__ import annotations

from selector.triage.subject import Category, Opinion, Ruling, Subject

SHADOW = True
CODES = ("compile-class",)
_FOLDERS = ("test/inductor/", "test/dynamo/", "test/export/")


def judge(subject: Subject) -> Opinion | None:
    if not subject.id.file.startswith(_FOLDERS):
        return None
    fact = subject.place("class", f"{subject.cls.name} lies in {subject.id.file.rpartition('/')[0]}", subject.cls.line)
    reason = "a test of the compiler: what it compiles may come to the device"
    return Opinion(Ruling.RELEVANT, Category.COMPILE, "compile-class", reason, (fact,), 0.5)
