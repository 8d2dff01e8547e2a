"""Classes that upstream's device-generic machinery makes for every device, this one included."""

from __future__ import annotations

from selector.discover.records import ClassRecord
from selector.triage.subject import Category, Opinion, Ruling, Subject

CODES = ("device-generic", "device-generic-unsupported")
# features of a test -> the sheet's word that says whether the device has them
_SHEET = {"sparse": "sparse", "quantized": "quantized", "inductor": "compile_inductor", "pin_memory": "pin_memory"}


def judge(subject: Subject) -> Opinion | None:
    made = [subject.cls, *_subclasses(subject)]
    calls = [(cls, one) for cls in made for one in cls.instantiated]
    if not calls:
        return None
    cls, call = calls[0]
    fact = subject.place("instantiation", f"{cls.name} is instantiated for device types", call.line)
    missing = sorted(
        feature
        for feature, word in _SHEET.items()
        if feature in subject.features and subject.capability.features.get(word) is False
    )
    if missing:
        reason = f"device-generic, but it uses what the sheet says is missing: {', '.join(missing)}"
        return Opinion(Ruling.ASK, Category.DEVICE_GENERIC, "device-generic-unsupported", reason, (fact,), 0.6)
    reason = f"its class is made for every device type, {subject.capability.device} among them"
    return Opinion(Ruling.RELEVANT, Category.DEVICE_GENERIC, "device-generic", reason, (fact,), 0.95)


def _subclasses(subject: Subject) -> list[ClassRecord]:
    reach = subject.inventory.reach(subject.id.file)
    classes = subject.inventory.files[subject.id.file].classes
    return [c for name, c in classes.items() if name != subject.cls.name and subject.cls.name in reach.chain(name)]
