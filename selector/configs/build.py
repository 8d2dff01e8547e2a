"""From what was written (``schema``) to what it means (``tree``)."""

from __future__ import annotations

from collections.abc import Sequence

from selector.configs import inputs, schema
from selector.configs.model import Precision
from selector.configs.nodes import Document
from selector.configs.patterns import dtype_name
from selector.configs.tree import (
    Edits,
    FileEntry,
    Globals,
    Inputs,
    Item,
    Selector,
    Selectors,
    TestEntry,
    Why,
)


def file_entry(block: schema.File) -> FileEntry:
    return FileEntry(
        place=block.place,
        path=block.path,
        unlisted=block.unlisted_test_mode,
        tests=tuple(test_entry(test) for test in block.tests),
        labels=tuple(block.labels),
        allow_empty=block.allow_empty,
        why=_why(block),
        bypass=tuple(block.bypass_device_restrictions),
    )


def test_entry(block: schema.Test) -> TestEntry:
    edits = block.edits
    return TestEntry(
        place=block.place_of("names"),
        names=tuple(block.names),
        mode=block.mode,
        why=_why(block),
        tags=tuple(block.tags),
        labels=tuple(block.labels),
        no_grad=block.no_grad,
        ops=Edits(tuple(map(_op, edits.ops.include)), tuple(map(_item, edits.ops.exclude))),
        dtypes=Edits(tuple(map(_dtype, edits.dtypes.include)), tuple(map(_dtype, edits.dtypes.exclude))),
        modules=Edits(tuple(map(_module, edits.modules.include)), tuple(map(_item, edits.modules.exclude))),
        cpu_move=tuple(item.name for item in edits.functions.cpu_move),
        selectors=Selectors(
            tuple(map(_selector, block.selectors.include)), tuple(map(_selector, block.selectors.exclude))
        ),
        bypass=tuple(block.bypass_device_restrictions),
        inputs=_inputs(edits.inputs),
        platforms=tuple(block.platform),
    )


test_entry.__test__ = False  # type: ignore[attr-defined]


def globals_of(doc: Document, block: schema.GlobalBlock) -> Globals:
    """An empty list of dtypes has always meant "no filter"; an empty list of ops means that no op is supported."""
    seed = block.input_config.seed
    return Globals(
        dtypes=_unlike(doc, tuple(map(_dtype, block.supported_dtypes)), "supported_dtypes") or None,
        ops=_supported(doc, block.supported_ops, "supported_ops"),
        modules=_supported(doc, block.supported_modules, "supported_modules"),
        seed=seed,
        seed_place=block.input_config.place_of("seed") if seed is not None else None,
        devices=tuple(block.devices),
        op_precision=_unlike(doc, tuple(map(_rough, block.op_precision)), "op_precision"),
    )


def _rough(block: schema.RoughOp) -> Item:
    return Item(block.name, block.place, _why(block), dtypes=tuple(map(_dtype, block.dtypes)))


def _supported(doc: Document, blocks: Sequence[schema.SupportedBlock] | None, key: str) -> tuple[Item, ...] | None:
    return None if blocks is None else _unlike(doc, tuple(_supported_item(block) for block in blocks), key)


def _unlike(doc: Document, items: tuple[Item, ...], key: str) -> tuple[Item, ...]:
    """Each name once; two that say different things are a problem."""
    names: dict[str, Item] = {}
    for item in items:
        first = names.setdefault(item.name, item)
        if _content(item) != _content(first):
            twice = f"{item.name!r} is in {key} twice, first on line {first.place.line}, and the two differ"
            doc.problem(item.place, "config-conflict", twice, lenient=True)
    return tuple(names.values())


def _content(item: Item) -> object:
    """What an item says, without the places."""
    return item.name, item.precision, item.force_xfail, tuple(_content(d) for d in item.dtypes or ())


def _why(block: schema.Explained) -> Why:
    return Why(" ".join(block.reason.split()), block.issue.strip(), block.evidence.strip(), block.until.strip())


def _item(block: schema.Item) -> Item:
    return Item(block.name, block.place, _why(block))


def _op(block: schema.Op) -> Item:
    return Item(block.name, block.place, _why(block), inputs=_inputs(block.sample_inputs_func))


def _dtype(block: schema.Dtype) -> Item:
    name = dtype_name(block.name)
    return Item(name, block.place, _why(block), block.force_xfail, _precision(block.precision))


def _precision(block: schema.PrecisionBlock | None) -> Precision | None:
    return None if block is None else Precision(block.atol, block.rtol)


def _module(block: schema.Module) -> Item:
    return Item(
        block.name,
        block.place,
        _why(block),
        inputs=_inputs(block.forward_inputs or block.sample_inputs_func),
        constructor=_one_input(block.constructor_inputs),
        module_path=block.module_path or "",
    )


def _supported_item(block: schema.SupportedBlock) -> Item:
    dtypes = tuple(map(_dtype, block.dtypes)) or None
    return Item(
        block.name,
        block.place,
        _why(block),
        block.force_xfail,
        None,
        dtypes,
        inputs=_inputs(block.forward_inputs),
        constructor=_one_input(block.constructor_inputs),
    )


def _inputs(blocks: Sequence[inputs.Inputs]) -> tuple[Inputs, ...]:
    return tuple(Inputs(block.place, *block.specs) for block in blocks)


def _one_input(block: inputs.Inputs | None) -> Inputs | None:
    return None if block is None else Inputs(block.place, *block.specs)


def _selector(block: schema.SelectorBlock) -> Selector:
    return Selector(
        block.place,
        block.has_ops,
        block.ops_in_supported,
        tuple(block.markers),
        tuple(block.decorators),
        tuple(block.name_patterns),
        tuple(block.module_patterns),
    )
