"""Classes that upstream does not make per device: plain ``TestCase``, parametrized and inherited ones.

The configs govern them all the same. Their methods exist already when the runtime sees them, so nothing is narrowed:
what the configs exclude is reported as skipped.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from relay.reuse import parametrize, restrictions
from relay.reuse.policy import Reuse
from relay.reuse.registry import VariantRecord
from relay.reuse.test_class import bound, mark
from selector.model import Mode, TestId


def govern(reuse: Reuse, cls: type, method: str, path: str) -> VariantRecord:
    """Records a collected method of a class and binds its mode to it. ``path``: the file it was collected from.

    A method that the class inherits is the class's own test: the record, and the binding, are for this class alone.
    """
    made = getattr(cls, method, None)
    raw = getattr(made, "_relay_raw", made)
    inherited = reuse.registry.get(cls, method)
    if inherited is not None:
        base, op, op_variant, dtypes = inherited.test.method, inherited.op, inherited.op_variant, inherited.dtypes
    else:
        base = getattr(raw, "__name__", method)
        kwargs: Any = (getattr(raw, "__defaults__", None) or ({},))[0]
        op, op_variant, dtypes = parametrize.described(kwargs if isinstance(kwargs, dict) else {})
    test = TestId(reuse.file_of(path), generic_name(cls), base)
    policy = reuse.policy(test)
    if policy.has_selectors and raw is not None:
        policy = reuse.policy(test, parametrize.facts(raw, policy))
    record = policy.record(method, op, op_variant, dtypes, bare=method if method != base else "")
    hardware = restrictions.classified(cls)
    if hardware and hardware not in policy.bypasses and record.mode is not Mode.SKIP:
        reason = f"upstream classifies this class as {hardware.upper()}"
        record = replace(record, mode=Mode.SKIP, reason=reason, issue="")
    reuse.registry.add(cls, record)
    if raw is not None:
        governed = bound(raw, record)
        if governed is not made:
            setattr(cls, method, governed)
            mark(governed, record.tags)
    return record


def generic_name(cls: type) -> str:
    """Upstream's name of a generated class (``TestFoo`` for ``TestFooPRIVATEUSE1``), else the class's own."""
    if len(cls.__bases__) == 2 and hasattr(cls, "_relay_policy") and not hasattr(cls.__bases__[1], "_relay_policy"):
        return cls.__bases__[1].__name__
    return cls.__name__
