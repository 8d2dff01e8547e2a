"""One rule a module; the table below is the order in which they are asked. The first that answers decides.

A rule is a function of a Subject that gives an Opinion, or None where it has nothing to say. Adding one: a module with
``judge``, a line here, a code in docs/reason-codes.md, and a row in tests/unit/triage. One that says ``SHADOW = True``
is on trial: asked at its place, written down, not acted upon.
"""

from __future__ import annotations

from collections.abc import Callable

from selector.triage.rules import (
    always_skipped,
    compile_classes,
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
from selector.trials import name_of, on_trial

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
    compile_classes,
    plain_class,
)
"""in the order in which they are asked"""
RULES: tuple[tuple[str, Rule], ...] = tuple(
    (module.__name__.rpartition(".")[2], module.judge) for module in MODULES if not on_trial(module)
)
"""those in force"""
TRIALS: tuple[tuple[str, Rule, int], ...] = tuple(
    (name_of(module), module.judge, sum(not on_trial(one) for one in MODULES[:place]))
    for place, module in enumerate(MODULES)
    if on_trial(module)
)
"""those on trial, with how many of those in force are asked before them"""
CODES = frozenset(code for module in MODULES for code in module.CODES)
