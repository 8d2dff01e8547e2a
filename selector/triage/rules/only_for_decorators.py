"""``@onlyCUDA`` and its kin: the test skips itself on every other device."""

from __future__ import annotations

from selector.discover.records import UNKNOWN, Decorator
from selector.triage.backends import category_of
from selector.triage.subject import Category, Opinion, Ruling, Subject

CODES = ("decorator-other-device", "decorator-not-this-device", "decorator-unclear")

# decorator -> the devices it lets through
ONLY: dict[str, tuple[str, ...]] = {
    "onlyCPU": ("cpu",),
    "onlyCUDA": ("cuda",),
    "onlyMPS": ("mps",),
    "onlyXPU": ("xpu",),
    "onlyHPU": ("hpu",),
    "onlyCUDAAndPRIVATEUSE1": ("cuda", "privateuse1"),
    "onlyPRIVATEUSE1": ("privateuse1",),
}


def judge(subject: Subject) -> Opinion | None:
    for decorator in subject.decorators:
        if decorator.name == "skipPRIVATEUSE1":
            fact = subject.place("decorator", "@skipPRIVATEUSE1", decorator.line)
            reason = "upstream skips it on every device of this kind"
            return Opinion(Ruling.IRRELEVANT, Category.OTHER_BACKEND, "decorator-not-this-device", reason, (fact,))
        devices = _devices(decorator)
        if devices is None or subject.let_in & set(devices):
            continue
        fact = subject.place(
            "decorator", f"@{decorator.name}({', '.join(decorator.args)})".replace("()", ""), decorator.line
        )
        if UNKNOWN in devices:
            reason = f"@{decorator.name} lets through devices that are not written as literals"
            return Opinion(Ruling.ASK, None, "decorator-unclear", reason, (fact,), 0.5)
        reason = f"it skips itself everywhere but on {', '.join(devices)}"
        return Opinion(Ruling.IRRELEVANT, category_of(devices), "decorator-other-device", reason, (fact,))
    return None


def _devices(decorator: Decorator) -> tuple[str, ...] | None:
    if decorator.name in ("onlyOn", "onlyNativeDeviceTypesAnd"):
        if decorator.name != "onlyOn":
            return None  # native devices include this kind
        words = tuple(word.rpartition("=")[2] for arg in decorator.args for word in arg.split(","))
        return words or (UNKNOWN,)
    return ONLY.get(decorator.name)
