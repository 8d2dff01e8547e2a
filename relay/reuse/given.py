"""Gives upstream's tests the inputs that a config writes for their ops and modules, and modules that it adds.

On objects: a copy of the OpInfo or ModuleInfo whose own way of making inputs is replaced. Upstream's are shared by all
tests and stay as they are; nothing of a config is evaluated as Python.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any
from unittest import SkipTest

import torch
from torch.utils._pytree import tree_map

from relay.reuse.model_inputs import Builder, Unbuildable, on
from relay.reuse.model_ops import packages, resolve_module
from relay.reuse.policy import active
from selector.configs.given import Given
from selector.configs.tree import Inputs, Item


def op_with(op: Any, given: Given) -> Any:
    """A copy of an OpInfo that is called with the config's inputs."""
    made = copy.copy(op)

    def samples(info: Any, device: str, dtype: Any, requires_grad: bool, **kwargs: Any) -> Iterator[Any]:
        from torch.testing._internal.opinfo.core import SampleInput

        for call in given.calls:
            args, named = _built(given, call, device, dtype, requires_grad)
            if not args:
                raise ValueError(f"{call.place}: inputs of an op need a first argument, which this call lacks")
            yield SampleInput(args[0], args=tuple(args[1:]), kwargs=named)

    made.sample_inputs_func, made.reference_inputs_func = samples, None
    return made


def module_with(info: Any, given: Given) -> Any:
    """A copy of a ModuleInfo whose module is made of, and called with, the config's inputs."""
    made, upstreams = copy.copy(info), info.module_inputs_func
    if getattr(info, "missing", ""):
        return made

    def inputs(
        module_info: Any, device: str, dtype: Any, requires_grad: bool, training: bool, **kwargs: Any
    ) -> list[Any]:
        from torch.testing._internal.common_modules import FunctionInput, ModuleInput

        if given.constructor is not None:
            args, named = _built(given, given.constructor, device, None, False)
            constructor = FunctionInput(*args, **named)
        elif getattr(info, "added", False):
            constructor = FunctionInput()  # no database knows how it is made: as it is by default
        else:
            theirs = upstreams(
                module_info, device=device, dtype=dtype, requires_grad=requires_grad, training=training, **kwargs
            )
            constructor = theirs[0].constructor_input
        found = []
        for call in given.calls:
            args, named = _built(given, call, device, dtype, requires_grad)
            found.append(ModuleInput(constructor_input=constructor, forward_input=FunctionInput(*args, **named)))
        return found

    made.module_inputs_func = inputs
    return made


def module_at(item: Item) -> Any:
    """A ModuleInfo for the class that ``module_path`` names. Its tests skip themselves where the class is not here."""
    from torch.testing._internal.common_modules import ModuleInfo

    class Added(ModuleInfo):  # type: ignore[misc]
        @property
        def name(self) -> str:  # upstream's finds no name for a class that torch.nn does not export
            return item.name

    def none_given(*_: Any, **__: Any) -> list[Any]:
        if missing:
            raise SkipTest(missing)
        raise ValueError(f"{item.place}: a module that is added by module_path needs forward_inputs")

    missing = ""
    try:
        cls = resolve_module(item.module_path, packages())
    except Unbuildable as exc:
        cls, missing = torch.nn.Identity, f"{item.place}: {exc}"
    made = Added(cls, module_inputs_func=none_given)
    made.missing, made.added = missing, True
    return made


def _built(given: Given, call: Inputs, device: str, dtype: Any, grad: bool) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of one call on a device. Each time the same: the seed starts anew."""
    reuse = active()
    builder = Builder(given.seed, reuse.input_files if reuse is not None else None)
    try:
        args = [builder.argument(spec) for spec in call.args]
        named = {key: builder.keyword(value) for key, value in call.kwargs.items()}
    except Unbuildable as exc:
        raise SkipTest(f"{call.place}: {exc}") from exc
    fit = _fitted(dtype, grad)
    return tree_map(fit, on(args, device)), tree_map(fit, on(named, device))


def _fitted(dtype: Any, grad: bool) -> Callable[[Any], Any]:
    """In the variant's dtype, which goes before the config's (RFC 1287, 5.3.4). Whole numbers of a variant of floating
    numbers are indices and masks, and stay."""

    def fit(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        numbers = value.is_floating_point() or value.is_complex()
        if (
            dtype is not None
            and value.dtype != dtype
            and (numbers or not (dtype.is_floating_point or dtype.is_complex))
        ):
            value = _strided_like(value, dtype)
        if grad and (value.is_floating_point() or value.is_complex()):
            value.requires_grad_()
        return value

    return fit


def _strided_like(value: torch.Tensor, dtype: Any) -> torch.Tensor:
    """``value`` in another dtype, with its strides and offset."""
    if value.is_contiguous() and not value.storage_offset():
        return value.to(dtype)
    size = value.untyped_storage().nbytes() // value.element_size()
    flat = value.as_strided((size,), (1,), 0).to(dtype)
    return flat.as_strided(value.shape, value.stride(), value.storage_offset())
