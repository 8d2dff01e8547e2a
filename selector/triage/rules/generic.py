"""Classes that upstream's device-generic machinery makes for every device, this one included."""

from __future__ import annotations

from selector.discover.records import ClassRecord, Instantiation
from selector.triage.subject import Opinion, Ruling, Subject

CODES = ("device-generic", "device-generic-unsupported")
# features of a test -> the sheet's word that says whether the device has them
SHEET_WORDS = {"sparse": "sparse", "quantized": "quantized", "inductor": "compile_inductor", "pin_memory": "pin_memory"}


def judge(subject: Subject) -> Opinion | None:
    made = made_for_devices(subject)
    if made is None:
        return None
    cls, call = made
    fact = subject.place("instantiation", f"{cls.name} is instantiated for device types", call.line)
    missing = sorted(
        feature
        for feature, word in SHEET_WORDS.items()
        if feature in subject.features and subject.capability.features.get(word) is False
    )
    if missing:
        reason = f"device-generic, but it uses what the sheet says is missing: {', '.join(missing)}"
        return Opinion(Ruling.ASK, None, "device-generic-unsupported", reason, (fact,), 0.6)
    reason = f"its class is made for every device type, {subject.capability.device} among them"
    return Opinion(Ruling.RELEVANT, None, "device-generic", reason, (fact,), 0.95)


def made_for_devices(subject: Subject) -> tuple[ClassRecord, Instantiation] | None:
    """The class that is made for device types, this one or one below it in its file, and the call that does so."""
    made = [subject.cls, *_subclasses(subject)]
    return next(((cls, one) for cls in made for one in cls.instantiated), None)


def _subclasses(subject: Subject) -> list[ClassRecord]:
    reach = subject.inventory.reach(subject.id.file)
    classes = subject.inventory.files[subject.id.file].classes
    return [c for name, c in classes.items() if name != subject.cls.name and subject.cls.name in reach.chain(name)]
