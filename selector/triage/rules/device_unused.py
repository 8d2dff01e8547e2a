"""Device-generic tests that get a device and never come to use it: what they run, they run on the CPU."""

from __future__ import annotations

from selector.triage.rules.generic import made_for_devices
from selector.triage.subject import Category, Opinion, Ruling, Subject

CODES = ("device-unused", "device-unused-compiled")


def judge(subject: Subject) -> Opinion | None:
    if made_for_devices(subject) is None or subject.uses_device is not False:
        return None
    given = "gets a device" if {"device", "devices"} & set(subject.test.args) else "asks for no device"
    fact = subject.place("device-use", f"it {given}, and nothing that could run on it is made from one")
    other = subject.features & {"cuda", "gpu"}
    if "inductor" in subject.features and not other:
        # whose code generator compiles it is not to be seen in the source
        reason = "it uses no device, but compiles, and a device may hook into the compiler"
        return Opinion(Ruling.ASK, Category.COMPILE, "device-unused-compiled", reason, (fact,), 0.5)
    category = Category.CUDA_ONLY if other else None
    reason = "it is made for every device type, but uses none" if not other else "it uses other devices by name only"
    return Opinion(Ruling.IRRELEVANT, category, "device-unused", reason, (fact,), 0.9)
