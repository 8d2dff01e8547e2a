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

MODULES = (
    always_skipped,
    hardware,
    instantiation,
    only_for_decorators,
    skip_conditions,
    self_skips,
    device_count,
    distributed,
    other_backend,
    dtypes,
    device_unused,
    generic,
    plain_class,
)
"""in the order in which they are asked"""
RULES: tuple[tuple[str, Rule], ...] = tuple((module.__name__.rpartition(".")[2], module.judge) for module in MODULES)
CODES = frozenset(code for module in MODULES for code in module.CODES)
