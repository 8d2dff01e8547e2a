"""``instantiate_device_type_tests(..., only_for=, except_for=)`` says for which devices a class exists."""

from __future__ import annotations

from selector.discover.records import UNKNOWN, Instantiation
from selector.triage.backends import category_of
from selector.triage.subject import Opinion, Ruling, Subject

CODES = ("instantiated-elsewhere", "instantiation-unclear")


def judge(subject: Subject) -> Opinion | None:
    made = subject.cls.instantiated
    if not made or any(_open(one, subject) for one in made):
        return None
    lines = made[0].line
    limits = "; ".join(_limits(one) for one in made)
    if any(UNKNOWN in (*(one.only_for or ()), *(one.except_for or ())) for one in made):
        fact = subject.place("instantiation", f"limits that only running the code would tell: {limits}", lines)
        reason = "the devices of its class are not written as literals"
        return Opinion(Ruling.ASK, None, "instantiation-unclear", reason, (fact,), 0.5)
    devices = sorted({device for one in made for device in one.only_for or ()})
    fact = subject.place("instantiation", f"{subject.cls.name} is instantiated with {limits}", lines)
    reason = f"its class is never made for {subject.capability.device}: {limits}"
    return Opinion(Ruling.IRRELEVANT, category_of(devices), "instantiated-elsewhere", reason, (fact,))


def _open(one: Instantiation, subject: Subject) -> bool:
    names = subject.device_names
    allowed = one.only_for is None or bool(subject.let_in & set(one.only_for))
    return allowed and not (one.except_for is not None and (names & set(one.except_for) or UNKNOWN in one.except_for))


def _limits(one: Instantiation) -> str:
    parts = [f"{key}={', '.join(v)}" for key, v in (("only_for", one.only_for), ("except_for", one.except_for)) if v]
    return " and ".join(parts) or "no limit"
