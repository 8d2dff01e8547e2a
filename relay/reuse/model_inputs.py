"""Builds the inputs of model cases: tensors with shape, dtype, stride, offset and init; lists; values; literals."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch


class Unbuildable(Exception):
    """An input that cannot be made here, with the reason; its case is skipped, not failed."""


class Builder:
    """Builds on the CPU; ``device`` moves. ``folder`` is where ``init_args.path`` may lie, and nowhere else."""

    def __init__(self, seed: int, folder: Path | None) -> None:
        self._generator = torch.Generator().manual_seed(seed)
        self._folder = folder

    def argument(self, spec: Any) -> Any:
        """One item of ``args``: exactly one kind of value."""
        if not isinstance(spec, Mapping):
            return self.keyword(spec)
        if "tensor" in spec:
            return self.tensor(spec["tensor"])
        if "tensor_list" in spec:
            return [self.tensor(item) for item in spec["tensor_list"]]
        if "value" in spec:
            return self.keyword(spec["value"])
        if "py" in spec:
            return literal(spec["py"])
        kind = next(iter(spec), "nothing")
        raise Unbuildable(f"an argument given by {kind} needs the model's own code, which is not here")

    def keyword(self, value: Any) -> Any:
        """A value of ``kwargs``: specs, words for dtypes and devices, literals."""
        if isinstance(value, Mapping) and set(value) & {"tensor", "tensor_list", "value", "py"}:
            return self.argument(value)
        if isinstance(value, str):
            word = value.removeprefix("torch.")
            named = getattr(torch, word, None) if word.isidentifier() else None
            if isinstance(named, torch.dtype | torch.memory_format | torch.layout):
                return named
            if word.split(":")[0] in ("cuda", "spyre", "privateuse1"):
                return DEVICE
            try:
                return literal(value)
            except Unbuildable:
                return value
        if isinstance(value, list):
            return [self.keyword(item) for item in value]
        return value

    def tensor(self, spec: Mapping[str, Any]) -> torch.Tensor:
        shape = tuple(spec["shape"])
        dtype = getattr(torch, str(spec.get("dtype", "float32")).removeprefix("torch."))
        stride, offset = spec.get("stride"), spec.get("storage_offset") or 0
        init, args = spec.get("init", "rand"), spec.get("init_args") or {}
        if init == "file":
            return self._file(str(args["path"]), args.get("key"), shape, dtype)
        if stride is None and not offset:
            return self._filled(shape, dtype, init, args)
        stride = tuple(stride) if stride is not None else _contiguous(shape)
        size = offset + 1 + sum((n - 1) * s for n, s in zip(shape, stride, strict=True)) if all(shape) else offset
        flat = self._filled((size,), dtype, "rand" if init in ("xavier", "eye") else init, args)
        return flat.as_strided(shape, stride, offset)

    def _filled(self, shape: tuple[int, ...], dtype: torch.dtype, init: str, args: Mapping[str, Any]) -> torch.Tensor:
        low, high = args.get("low", 0), args.get("high")
        if init in ("rand", "randn", "xavier"):
            return self._random(shape, dtype, init)
        if init == "randint":
            return torch.randint(int(low), int(high or 1), shape, generator=self._generator).to(dtype)
        if init in ("zeros", "ones"):
            return getattr(torch, init)(shape, dtype=dtype)
        if init == "full":
            return torch.full(shape, args["fill_value"], dtype=dtype)
        if init == "arange":
            return torch.arange(math.prod(shape)).reshape(shape).to(dtype)
        if init == "eye":
            return torch.eye(*shape).to(dtype)
        if init == "cumsum_offsets":
            return torch.linspace(0, int(args["total"]), shape[0]).floor().to(dtype)
        raise Unbuildable(f"init {init!r} is unknown")

    def _random(self, shape: tuple[int, ...], dtype: torch.dtype, init: str) -> torch.Tensor:
        if not dtype.is_floating_point and not dtype.is_complex:
            top = 2 if dtype == torch.bool else 10
            return torch.randint(0, top, shape, generator=self._generator).to(dtype)
        draw = torch.rand if init == "rand" else torch.randn
        made = draw(shape, generator=self._generator)
        if init == "xavier" and len(shape) > 1:
            made = made * math.sqrt(2.0 / max(1, shape[0] + shape[1]))
        return made.to(dtype)

    def _file(self, name: str, key: str | None, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        if self._folder is None:
            raise Unbuildable(f"the file {name} was not given along with the config")
        path = (self._folder / name).resolve()
        if not path.is_relative_to(self._folder.resolve()):
            raise ValueError(f"init_args.path {name!r} is outside of the config's folder")
        if not path.is_file():
            raise Unbuildable(f"the file {name} is not beside the config")
        value = torch.load(path, weights_only=True)
        value = value[key] if key is not None else value
        if tuple(value.shape) != shape or value.dtype != dtype:
            raise ValueError(f"{name} holds {value.dtype} of {tuple(value.shape)}, the config says {dtype} of {shape}")
        return value


class _Device:
    """Stands for the test's device until it is known."""


DEVICE = _Device()


def on(value: Any, device: str) -> Any:
    """The value on a device: tensors with their strides and offset, ``DEVICE`` as the device's name."""
    if isinstance(value, torch.Tensor):
        if value.is_contiguous() and not value.storage_offset():
            return value.clone().to(device)
        flat = torch.empty(0, dtype=value.dtype).set_(value.untyped_storage())
        return flat.clone().to(device).as_strided(value.shape, value.stride(), value.storage_offset())
    if isinstance(value, _Device):
        return device
    if isinstance(value, list | tuple):
        return type(value)(on(item, device) for item in value)
    if isinstance(value, dict):
        return {key: on(item, device) for key, item in value.items()}
    return value


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, size = [], 1
    for n in reversed(shape):
        strides.append(size)
        size *= max(n, 1)
    return tuple(reversed(strides))


def literal(text: str) -> Any:
    """A literal of the format's small language, read by its syntax tree; never evaluated."""
    try:
        tree = ast.parse(str(text).strip(), mode="eval").body
    except (SyntaxError, ValueError) as exc:
        raise Unbuildable(f"{text!r} is not a literal") from exc
    return _literal(tree, str(text))


def _literal(node: ast.expr, text: str) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name) and node.id in ("Ellipsis", "inf", "nan"):
        return {"Ellipsis": ..., "inf": math.inf, "nan": math.nan}[node.id]
    if isinstance(node, ast.Tuple | ast.List):
        items = [_literal(item, text) for item in node.elts]
        return tuple(items) if isinstance(node, ast.Tuple) else items
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd | ast.USub):
        value = _literal(node.operand, text)
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "slice" and not node.keywords:
        return slice(*(_literal(arg, text) for arg in node.args))
    raise Unbuildable(f"{text!r} is more than a literal")
