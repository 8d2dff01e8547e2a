"""Classes that no device-generic machinery makes: what they use tells whether a device can come in at all."""

from __future__ import annotations

from selector.discover.records import UNKNOWN
from selector.triage.backends import category_of
from selector.triage.features import GPU
from selector.triage.subject import Opinion, Ruling, Subject

CODES = ("no-device", "plain-other-device", "plain-device", "mixin", "template", "imported-elsewhere")


def judge(subject: Subject) -> Opinion | None:
    line = subject.cls.line
    roots = _roots(subject)
    if not any(base.endswith(("TestCase", "Test", "TestBase")) for base in roots):
        if not set(roots) - {"object"} and _taken_over(subject):
            fact = subject.place(
                "class", f"{subject.cls.name} is no test case, and other classes take its tests over", line
            )
            reason = "no runner collects it by itself: what it holds runs in the classes that take it over"
            return Opinion(Ruling.IRRELEVANT, None, "template", reason, (fact,), 0.95)
        fact = subject.place("class", f"{subject.cls.name} derives from {', '.join(roots) or 'nothing'}", line)
        reason = "its class is no test case by itself: others may mix it in"
        return Opinion(Ruling.ASK, None, "mixin", reason, (fact,), 0.4)
    elsewhere = [at for at, _, name in subject.inventory.importers(subject.id.file) if name == subject.cls.name]
    if elsewhere:
        fact = subject.place("import", f"{elsewhere[0]} imports {subject.cls.name}", line)
        reason = "its class is used in another file, which may make it for devices"
        return Opinion(Ruling.ASK, None, "imported-elsewhere", reason, (fact,), 0.4)
    if "device" in subject.features or ("device" in subject.test.args and not _parametrised(subject)):
        fact = subject.place("feature", "it takes its device from a variable")
        reason = "its class is made for no device type, but it may use whatever device there is"
        return Opinion(Ruling.ASK, None, "plain-device", reason, (fact,), 0.5)
    made = f"{subject.cls.name} is never given to instantiate_device_type_tests"
    if subject.features & {"cuda", "gpu"}:
        named = "CUDA" if "cuda" in subject.features else "upstream's own GPU types"
        fact = subject.place("feature", f"{made}; it names {named} itself", line)
        reason = f"it runs on the CPU or on {named}, never on another device"
        return Opinion(Ruling.IRRELEVANT, category_of(["cuda"]), "plain-other-device", reason, (fact,), 0.9)
    fact = subject.place("class", f"{made}, and nothing in its reach names a device", line)
    reason = "no device comes into it: it computes on the CPU or not at all"
    return Opinion(Ruling.IRRELEVANT, None, "no-device", reason, (fact,), 0.95)


def _roots(subject: Subject) -> tuple[str, ...]:
    """Dotted names of what the class derives from outside of its file; of a class that code makes, of what it is made
    of."""
    inventory, test = subject.inventory, subject.id
    known = inventory.known(test.file).get(test)
    if known is not None and known.how == "made" and test.cls not in inventory.files[test.file].classes:
        cls = known.origin.key.rpartition(".")[0]
        return inventory.reach(known.origin.path).foreign_bases(cls) if cls else ()
    return inventory.reach(test.file).foreign_bases(subject.cls.name)


def _taken_over(subject: Subject) -> bool:
    """Whether the test runs in other classes, which inherit it or are made of it."""
    known = subject.inventory.known(subject.id.file).get(subject.id)
    return known is not None and known.how == "written" and bool(subject.inventory.derived(*known.origin))


def _parametrised(subject: Subject) -> bool:
    """Whether its devices are listed in a decorator, none of them this one."""
    for decorator in subject.test.decorators:
        if decorator.name.startswith("parametrize") and decorator.args:
            values = {word for arg in decorator.args[1:] for word in arg.split(",")}
            if "device" in decorator.args[0].replace(" ", "").split(","):
                return (UNKNOWN not in values and not values & subject.device_names) or bool(set(decorator.names) & GPU)
    return False
