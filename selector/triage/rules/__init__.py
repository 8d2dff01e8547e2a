"""One rule a module; the table below is the order in which they are asked. The first that answers decides.

A rule is a function of a Subject that gives an Opinion, or None where it has nothing to say. Adding one: a module with
``judge``, a line here, a code in docs/reason-codes.md, and a row in tests/unit/triage.
"""

from __future__ import annotations

from collections.abc import Callable

from selector.triage.rules import (
    always_skipped,
    device_count,
    device_unused,
    distributed,
    dtypes,
    generic,
    hardware,
    instantiation,
    only_for_decorators,
    other_backend,
    plain_class,
    self_skips,
    skip_conditions,
)
from selector.triage.subject import Opinion, Subject

Rule = Callable[[Subject], Opinion | None]

RULES: tuple[tuple[str, Rule], ...] = (
    ("always_skipped", always_skipped.judge),
    ("hardware", hardware.judge),
    ("instantiation", instantiation.judge),
    ("only_for_decorators", only_for_decorators.judge),
    ("skip_conditions", skip_conditions.judge),
    ("self_skips", self_skips.judge),
    ("device_count", device_count.judge),
    ("distributed", distributed.judge),
    ("other_backend", other_backend.judge),
    ("dtypes", dtypes.judge),
    ("device_unused", device_unused.judge),
    ("generic", generic.judge),
    ("plain_class", plain_class.judge),
)
MODULES = (
    always_skipped,
    device_count,
    device_unused,
    distributed,
    dtypes,
    generic,
    hardware,
    instantiation,
    only_for_decorators,
    other_backend,
    plain_class,
    self_skips,
    skip_conditions,
)
CODES = frozenset(code for module in MODULES for code in module.CODES)
