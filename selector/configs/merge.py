"""``extends``: lists of the shared sheet and of the config merge by name; a scalar given twice is an error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from selector.configs.model import Place, Precision
from selector.configs.tree import Globals, Item

Complain = Callable[[Place, Place, str], None]
"""(second place, first place, what was given twice)"""


def merge_globals(base: Globals, own: Globals, complain: Complain) -> Globals:
    """What a config that extends ``base`` filters by."""
    if base.seed_place is not None and own.seed_place is not None and base.seed_place != own.seed_place:
        complain(own.seed_place, base.seed_place, "input_config.seed")
    return Globals(
        dtypes=_merge_items(base.dtypes, own.dtypes, complain),
        ops=_merge_items(base.ops, own.ops, complain),
        modules=_merge_items(base.modules, own.modules, complain),
        seed=own.seed if own.seed is not None else base.seed,
        seed_place=own.seed_place or base.seed_place,
        devices=tuple(dict.fromkeys(base.devices + own.devices)),
        op_precision=_merge_items(base.op_precision, own.op_precision, complain) or (),
    )


def _merge_items(
    base: tuple[Item, ...] | None, own: tuple[Item, ...] | None, complain: Complain
) -> tuple[Item, ...] | None:
    if base is None or own is None:
        return own if base is None else base
    merged = {item.name: item for item in base}
    for item in own:
        merged[item.name] = _merge_item(merged[item.name], item, complain) if item.name in merged else item
    return tuple(merged.values())


def _merge_item(base: Item, own: Item, complain: Complain) -> Item:
    if base.place == own.place:  # the same sheet, reached by two ways
        return own
    precision = own.precision or base.precision
    if base.precision is not None and own.precision is not None:
        for key in ("atol", "rtol"):
            if getattr(base.precision, key) is not None and getattr(own.precision, key) is not None:
                complain(own.place, base.place, f"precision.{key} of {own.name!r}")
        precision = Precision(
            base.precision.atol if own.precision.atol is None else own.precision.atol,
            base.precision.rtol if own.precision.rtol is None else own.precision.rtol,
        )
    return replace(
        own,
        why=own.why if own.why.reason else base.why,
        force_xfail=base.force_xfail or own.force_xfail,
        precision=precision,
        dtypes=_merge_items(base.dtypes, own.dtypes, complain),
    )
