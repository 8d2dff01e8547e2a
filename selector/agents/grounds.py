"""Whether a ground for dropping a test holds, by the parsed source and the sheet alone: no opinion is asked."""

from __future__ import annotations

from collections.abc import Callable

from selector.agents.sheets import Ground
from selector.model import Evidence
from selector.triage.rules.generic import SHEET_WORDS, made_for_devices
from selector.triage.subject import Subject


def proof(ground: Ground, subject: Subject) -> Evidence | None:
    """The fact that the ground rests on; None: it does not hold, or nothing shows that it does."""
    return _PROOFS[ground](subject)


def _uses_no_device(subject: Subject) -> Evidence | None:
    if subject.uses_device is not False:
        return None
    return subject.place("device-use", "nothing that could run on a device is made from the one that it gets")


def _lacks_feature(subject: Subject) -> Evidence | None:
    features = subject.capability.features
    missing = sorted(f for f, word in SHEET_WORDS.items() if f in subject.features and features.get(word) is False)
    if not missing:
        return None
    return subject.place("capability", f"it uses what the sheet says is missing: {', '.join(missing)}")


def _other_device_only(subject: Subject) -> Evidence | None:
    named = subject.device_literals
    if not named or named & (subject.let_in | {"cpu", "meta"}) or made_for_devices(subject) is not None:
        return None
    return subject.place("device-name", f"the devices that it names are {', '.join(sorted(named))} alone")


def _no_test_by_itself(subject: Subject) -> Evidence | None:
    name, path = subject.cls.name, subject.id.file
    reach = subject.inventory.reach(path)
    below = [c for c in subject.inventory.files[path].classes if c != name and name in reach.chain(c)]
    users = [at for at, _, imported in subject.inventory.importers(path) if imported in (name, "*", "")]
    roots = set(reach.foreign_bases(name)) - {"object"}
    if below or users or subject.cls.instantiated or roots:
        return None
    return subject.place("class", f"{name} derives from nothing, and nothing derives from it or imports it")


_PROOFS: dict[Ground, Callable[[Subject], Evidence | None]] = {
    Ground.USES_NO_DEVICE: _uses_no_device,
    Ground.LACKS_FEATURE: _lacks_feature,
    Ground.OTHER_DEVICE_ONLY: _other_device_only,
    Ground.NO_TEST_BY_ITSELF: _no_test_by_itself,
}
