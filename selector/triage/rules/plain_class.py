"""Classes that no device-generic machinery makes: what they use tells whether a device can come in at all."""

from __future__ import annotations

from selector.discover.family import Place
from selector.discover.records import MAKES, UNKNOWN
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
    elsewhere = _made_elsewhere(subject)
    if elsewhere:
        fact = subject.place("import", f"{elsewhere} imports {subject.cls.name}", line)
        reason = "its class is used in another file, which makes classes for device types"
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


def _made_elsewhere(subject: Subject) -> str:
    """A file that takes the class over, at first or second hand, makes classes for device types, and uses it in code
    outside of classes; '' if there is none. One that lists it for a runner, or inherits from it, does not."""
    inventory = subject.inventory
    todo = [(subject.id.file, subject.cls.name)]
    seen = set(todo)
    while todo:
        path, wanted = todo.pop()
        for at, one, name in inventory.importers(path):
            if name not in (wanted, "*"):
                continue
            record, local = inventory.files[at], wanted if name == "*" else one.local
            # a name of a star import is not among those that symbols are known to use
            loose = (s.refs for s in record.symbols.values() if s.kind not in ("class", "method", "import"))
            if MAKES in record.mentions and (name == "*" or any(local in refs for refs in loose)):
                return at
            known_as = (at, local)
            if known_as not in seen:
                seen.add(known_as)
                todo.append(known_as)
    return ""


def _roots(subject: Subject) -> tuple[str, ...]:
    """Dotted names of what the class derives from outside of the inventory, by way of classes of other files too; of a
    class that code makes, of what it is made of."""
    inventory, test = subject.inventory, subject.id
    known = inventory.known(test.file).get(test)
    place = Place(test.file, subject.cls.name)
    if known is not None and known.how == "made" and test.cls not in inventory.files[test.file].classes:
        place = Place(known.origin.path, known.origin.key.rpartition(".")[0])
    if place.key not in inventory.files[place.path].classes:
        return ()
    family = inventory.family
    above = [(at.path, base) for at in family.chain(place) for base in family.record(at).bases]
    return tuple(dict.fromkeys(base for path, base in above if family.cls(path, base) is None))


def _taken_over(subject: Subject) -> bool:
    """Whether what the test runs runs in other classes too, which inherit it or are made of it."""
    known = subject.inventory.known(subject.id.file).get(subject.id)
    if known is None:
        return False
    own = (subject.id.file, subject.id.cls)
    return any((other.file, other.cls) != own for other in subject.inventory.derived(*known.origin))


def _parametrised(subject: Subject) -> bool:
    """Whether its devices are listed in a decorator, none of them this one."""
    for decorator in subject.test.decorators:
        if decorator.name.startswith("parametrize") and decorator.args:
            values = {word for arg in decorator.args[1:] for word in arg.split(",")}
            if "device" in decorator.args[0].replace(" ", "").split(","):
                return (UNKNOWN not in values and not values & subject.device_names) or bool(set(decorator.names) & GPU)
    return False
