"""``relay config diff A B``: which variants change mode, and where that was decided."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from selector.configs.capability import Capability
from selector.configs.chain import Chain
from selector.configs.explain import Group, Op, cell, cells
from selector.configs.rules import ReuseConfigs
from selector.model import TestId

DROPPED = "not generated"


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two: configs and the sheet that goes with them."""

    configs: ReuseConfigs
    capability: Capability | None = None


@dataclass(frozen=True, slots=True)
class Changed:
    """Variants of one test that are run otherwise: every op of ``ops`` with every dtype of ``dtypes``."""

    test: TestId
    ops: tuple[Op, ...]
    dtypes: tuple[str, ...]
    before: str
    after: str
    was_by: str
    is_by: str
    reason: str


def diff(a: Side, b: Side, tests: Iterable[TestId], ops: Sequence[Op] | None = None) -> list[Changed]:
    """What changes from ``a`` to ``b`` for the tests, in their order. Modes are those of the format, or
    ``not generated``; a changed reason alone is no change."""
    found: list[Changed] = []
    for test in tests:
        found += _test(a, b, test, ops)
    return found


def named_tests(*sides: Side) -> list[TestId]:
    """Tests that exact names and exact paths of the configs name; what can be compared without an upstream."""
    found: dict[TestId, None] = {}
    for side in sides:
        for suite in side.configs.suites:
            for file in suite.files:
                if file.path.path is None or file.path.regex is not None:
                    continue
                for entry in file.tests:
                    for name in entry.names:
                        if name.cls and name.cls_regex is None and name.method_regex is None:
                            found[TestId(file.path.path, name.cls, name.method)] = None
    return list(found)


def _test(a: Side, b: Side, test: TestId, ops: Sequence[Op] | None) -> list[Changed]:
    both = [cells(side.configs, test, side.capability, ops) for side in (a, b)]
    op_cells = list(dict.fromkeys([*both[0][0], *both[1][0]]))
    dtype_cells = list(dict.fromkeys([*both[0][1], *both[1][1]]))
    chains = [Chain(test, side.configs, side.capability) for side in (a, b)]
    rows: dict[tuple[str, ...], dict[Op, list[str]]] = {}
    for op in op_cells:
        for dtype in dtype_cells:
            old = cell(a.configs, chains[0], op, dtype, None)
            new = cell(b.configs, chains[1], op, dtype, None)
            before, after = _word(old), _word(new)
            if before != after:
                key = (before, after, old.rule.source, new.rule.source, new.rule.reason)
                rows.setdefault(key, {}).setdefault(op, []).append(dtype)
    found = []
    for (before, after, was_by, is_by, reason), by_op in rows.items():
        alike: dict[tuple[str, ...], list[Op]] = {}
        for op, dtypes in by_op.items():
            alike.setdefault(tuple(dtypes), []).append(op)
        for dtypes_of, members in alike.items():
            found.append(Changed(test, tuple(members), dtypes_of, before, after, was_by, is_by, reason))
    return found


def _word(group: Group) -> str:
    return DROPPED if group.presence == "dropped" else group.rule.mode.value
