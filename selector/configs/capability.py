"""The device sheet (``capability.yaml``): what a device has, and what it costs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from selector.configs.blocks import Block, Given, NotNegative, TextValue, read, wrong
from selector.configs.model import ConfigProblem
from selector.configs.nodes import Document, nearest
from selector.configs.patterns import DTYPES, dtype_name
from selector.configs.values import plain
from selector.errors import ConfigError

_OP = re.compile(r"[A-Za-z_]\w*(?:\.\w+)?")
_WORD = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Capability:
    """What a device can do. Ops are aten base names as the device checks them (``add``, ``_softmax``).

    ``ops`` None: all of them. ``fallback_ops`` run on the CPU with a counted warning. Dtypes are names without
    ``torch.``. ``machine`` holds the figures of the model (units in the key: ``_gbps``, ``_us``, ``_bytes``, ``_w``).
    """

    name: str
    device: str
    dtypes: frozenset[str]
    ops: frozenset[str] | None
    fallback_ops: frozenset[str]
    limits: Mapping[str, object]
    machine: Mapping[str, float]
    features: Mapping[str, bool]

    def supports_op(self, aten_name: str) -> bool:
        """Whether the device runs the op itself or by fallback. Takes ``aten::add_.Tensor``, ``add_`` and ``add``."""
        if self.ops is None:
            return True
        name, _, overload = aten_name.removeprefix("aten::").removeprefix("aten.").partition(".")
        base = base_name(name)
        spellings = {name, base}
        if overload:
            spellings |= {f"{name}.{overload}", f"{base}.{overload}"}
        return bool(spellings & self.ops) or bool(spellings & self.fallback_ops)

    def supports_dtype(self, name: str) -> bool:
        """Whether tensors of the dtype can live on the device; ``torch.float16`` and ``half`` are understood."""
        return dtype_name(name.removeprefix("torch.")) in self.dtypes


def base_name(op: str) -> str:
    """The operator that ``add_`` is the in-place form of; ``__and__`` and its like are names of their own."""
    return op if op.startswith("__") else op.rstrip("_")


def _capability_dtype(word: str) -> str:
    if word not in DTYPES:
        bare = word.removeprefix("torch.")
        hint = f"write {bare!r}" if bare in DTYPES else nearest(bare, DTYPES)
        raise wrong("config-dtype", f"{word!r} is not a dtype of this format", hint)
    return dtype_name(word)


def _device_word(word: str) -> str:
    if not _WORD.fullmatch(word):
        raise wrong("config-value", f"{word!r} is not a device type", "a word such as spyre")
    return word


def _split(value: Any) -> Any:
    """A list of names, or one text of names with white space between them."""
    return value.split() if isinstance(value, str) else value


def _op(word: str) -> str:
    if not _OP.fullmatch(word):
        raise wrong(
            "config-value", f"{word!r} is not an op's name", "aten's base name without 'aten::', as add or _softmax"
        )
    return word


OpNames = Annotated[
    list[Annotated[TextValue, AfterValidator(_op)]], BeforeValidator(_split, json_schema_input_type=str | list[str])
]


class CapabilityBlock(Block):
    """What a device has."""

    name: TextValue
    device: Annotated[TextValue, AfterValidator(_device_word)]
    dtypes: list[Annotated[TextValue, AfterValidator(_capability_dtype)]]
    ops: Given[OpNames] = None
    fallback_ops: OpNames = Field(default_factory=list)
    limits: dict[str, Any] = Field(default_factory=dict)
    machine: dict[str, NotNegative] = Field(default_factory=dict)
    features: dict[str, bool] = Field(default_factory=dict)

    @property
    def sheet(self) -> Capability:
        return Capability(
            name=self.name,
            device=self.device,
            dtypes=frozenset(self.dtypes),
            ops=None if self.ops is None else frozenset(self.ops),
            fallback_ops=frozenset(self.fallback_ops),
            limits=MappingProxyType(plain(self.written.get("limits", {}))),
            machine=MappingProxyType(dict(self.machine)),
            features=MappingProxyType(dict(self.features)),
        )


def load_capability(text: str, source: str) -> Capability:
    """Reads a sheet: the root key ``capability`` (beside it ``global``, for configs that extend the sheet).

    Raises :class:`selector.errors.ConfigError` at the first problem.
    """
    from selector.configs.schema import SheetFile  # the model of the whole file, of which this is a part

    doc = Document(source, text)
    sheet = read(doc, SheetFile, doc.root) if doc.node is not None else None
    if sheet is not None and sheet.capability is None and not doc.problems:
        doc.problem(sheet.place, "config-missing-key", "the sheet has no 'capability'", "its root key is 'capability:'")
    raise_first(doc.problems)
    if (
        sheet is None or sheet.capability is None
    ):  # unreachable: whatever keeps a sheet from being read is a problem, raised above
        raise ConfigError(source, 1, 1, "the sheet cannot be read")
    return sheet.capability.sheet


def raise_first(problems: list[ConfigProblem]) -> None:
    """Raises the first error, in order of place; says how many more there are."""
    errors = sorted((p for p in problems if p.level == "error"), key=lambda p: (p.source, p.line, p.column))
    if not errors:
        return
    first, more = errors[0], len(errors) - 1
    rest = f"{more} more: see 'relay config lint'" if more else ""
    hint = "; ".join(t for t in (first.hint, rest) if t)
    said = f"{first.path}: {first.message}" if first.path else first.message
    error = ConfigError(first.source, first.line, first.column, said, hint)
    error.code = first.code
    raise error
