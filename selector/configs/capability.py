"""The device sheet (``capability.yaml``): what a device has, and what it costs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from yaml.nodes import Node

from selector.configs.model import ConfigProblem
from selector.configs.nodes import Document, nearest
from selector.configs.patterns import DTYPES, dtype_name
from selector.errors import ConfigError

_KEYS = ("name", "device", "dtypes", "ops", "fallback_ops", "limits", "machine", "features")
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
        base = name if name.startswith("__") else name.rstrip("_")
        spellings = {name, base}
        if overload:
            spellings |= {f"{name}.{overload}", f"{base}.{overload}"}
        return bool(spellings & self.ops) or bool(spellings & self.fallback_ops)

    def supports_dtype(self, name: str) -> bool:
        """Whether tensors of the dtype can live on the device; ``torch.float16`` and ``half`` are understood."""
        return dtype_name(name.removeprefix("torch.")) in self.dtypes


def load_capability(text: str, source: str) -> Capability:
    """Reads a sheet: the root key ``capability`` (beside it ``global``, for configs that extend the sheet).

    Raises :class:`selector.errors.ConfigError` at the first problem.
    """
    doc = Document(source, text)
    capability: Capability | None = None
    if doc.root is not None:
        found = doc.fields(doc.root, "the sheet", ("capability", "global", "extends")) or {}
        if "capability" in found:
            capability = read_capability(doc, found["capability"][1])
        elif not doc.problems:
            hint = "its root key is 'capability:'"
            doc.problem(doc.root, "config-missing-key", "the sheet has no 'capability'", hint)
    raise_first(doc.problems)
    if capability is None:  # unreachable: whatever keeps a sheet from being read is a problem, raised above
        raise ConfigError(source, 1, 1, "the sheet cannot be read")
    return capability


def raise_first(problems: list[ConfigProblem]) -> None:
    """Raises the first error, in order of place; says how many more there are."""
    errors = sorted((p for p in problems if p.level == "error"), key=lambda p: (p.source, p.line, p.column))
    if not errors:
        return
    first, more = errors[0], len(errors) - 1
    rest = f"{more} more: see 'relay config lint'" if more else ""
    error = ConfigError(
        first.source, first.line, first.column, first.message, "; ".join(t for t in (first.hint, rest) if t)
    )
    error.code = first.code
    raise error


def read_capability(doc: Document, node: Node) -> Capability | None:
    found = doc.fields(node, "capability", _KEYS)
    if found is None:
        return None
    for key in ("name", "device", "dtypes"):
        if key not in found:
            doc.problem(node, "config-missing-key", f"capability has no {key!r}")
    name = doc.each(found, "name", lambda n: doc.text(n, "capability.name")) or ""
    device = doc.each(found, "device", lambda n: doc.text(n, "capability.device")) or ""
    if device and not _WORD.fullmatch(device):
        doc.problem(found["device"][1], "config-value", f"{device!r} is not a device type", "a word such as spyre")
    dtypes = [_dtype(doc, item) for item in doc.items(found["dtypes"][1], "dtypes")] if "dtypes" in found else []
    ops = _ops(doc, found["ops"][1], "ops") if "ops" in found else None
    fallback = _ops(doc, found["fallback_ops"][1], "fallback_ops") if "fallback_ops" in found else frozenset()
    limits = doc.fields(found["limits"][1], "capability.limits", None) if "limits" in found else None
    machine = doc.fields(found["machine"][1], "capability.machine", None) if "machine" in found else None
    features = doc.fields(found["features"][1], "capability.features", None) if "features" in found else None
    figures = {k: doc.number(v, f"machine.{k}", minimum=0) for k, (_, v) in (machine or {}).items()}
    flags = {k: doc.flag(v, f"features.{k}") for k, (_, v) in (features or {}).items()}
    return Capability(
        name=name,
        device=device,
        dtypes=frozenset(d for d in dtypes if d),
        ops=ops,
        fallback_ops=fallback,
        limits=MappingProxyType({k: doc.plain(v, f"limits.{k}") for k, (_, v) in (limits or {}).items()}),
        machine=MappingProxyType({k: v for k, v in figures.items() if v is not None}),
        features=MappingProxyType({k: v for k, v in flags.items() if v is not None}),
    )


def _dtype(doc: Document, node: Node) -> str | None:
    word = doc.text(node, "a dtype")
    if word is None:
        return None
    bare = word.removeprefix("torch.")
    if word not in DTYPES:
        hint = f"write {bare!r}" if bare in DTYPES else nearest(bare, DTYPES)
        doc.problem(node, "config-dtype", f"{word!r} is not a dtype of this format", hint)
        return None
    return dtype_name(word)


def _ops(doc: Document, node: Node, what: str) -> frozenset[str]:
    """A list of names, or one text of names with white space between them."""
    if getattr(node, "tag", "") == "tag:yaml.org,2002:str":
        words = [(node, word) for word in str(node.value).split()]
    else:
        words = [(item, doc.text(item, f"an op of {what}") or "") for item in doc.items(node, what)]
    for item, word in words:
        if word and not _OP.fullmatch(word):
            hint = "aten's base name without 'aten::', as add or _softmax"
            doc.problem(item, "config-value", f"{word!r} in {what} is not an op's name", hint)
    return frozenset(word for _, word in words if word)
