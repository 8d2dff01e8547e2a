"""Narrows what upstream's own parametrizers generate, by looking at the objects they generate it from.

The decorators' objects and the OpInfo objects are shared by all tests of a process: they are copied
(``copy.copy``), never changed in place.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from types import MethodType
from typing import Any

import torch

from relay.reuse import given, module_tests, op_dtypes, restrictions
from relay.reuse.dtypes import dtype_name
from relay.reuse.opinfos import aten_name, composite
from relay.reuse.policy import TestPolicy
from selector.configs import TestFacts

# Upstream runs our test class's file in the middle of importing common_device_type: that module, and what imports it,
# is imported where it is used.

Generator = Callable[..., Iterator[tuple[Any, str, dict[str, Any], Callable[..., Any]]]]


def narrow(generate: Generator, policy: TestPolicy, why_empty: list[str]) -> Generator:
    """The same generator without the ops, modules and dtypes that ``policy`` leaves out.

    Understands upstream's ``@ops``, ``@modules``, ``@reparametrize`` and products of them; anything else is returned
    as it is, and its variants are looked at one by one after generation. Why nothing is left goes to ``why_empty``.
    """
    from torch.testing._internal import common_device_type as upstream
    from torch.testing._internal.common_modules import modules
    from torch.testing._internal.common_utils import compose_parametrize_fns, reparametrize

    if isinstance(generate, MethodType):
        owner = generate.__self__
        if isinstance(owner, upstream.ops):
            return _ops(owner, policy, why_empty)
        if isinstance(owner, modules):
            return module_tests.narrow(owner, policy, why_empty)
        if isinstance(owner, reparametrize):
            adapted = copy.copy(owner)
            adapted.parametrizer = _Adapter(narrow(owner.parametrizer._parametrize_test, policy, why_empty))
            return adapted._parametrize_test  # type: ignore[no-any-return]
        return generate
    defaults: tuple[Any, ...] = getattr(generate, "__defaults__", None) or ()
    if getattr(generate, "__name__", "") == "composite_fn" and len(defaults) == 2:
        old, new = defaults
        return compose_parametrize_fns(  # type: ignore[no-any-return]
            narrow(old, policy, why_empty), narrow(new, policy, why_empty)
        )
    return generate


def sources(generate: Generator) -> Iterator[Any]:
    """Upstream's ``@ops`` and ``@modules`` objects that a generator is made of."""
    from torch.testing._internal import common_device_type as upstream
    from torch.testing._internal.common_modules import modules
    from torch.testing._internal.common_utils import reparametrize

    if isinstance(generate, MethodType):
        owner = generate.__self__
        if isinstance(owner, upstream.ops | modules):
            yield owner
        elif isinstance(owner, reparametrize):
            yield from sources(owner.parametrizer._parametrize_test)
    elif getattr(generate, "__name__", "") == "composite_fn":
        for part in getattr(generate, "__defaults__", None) or ():
            yield from sources(part)


def facts(test: Any, policy: TestPolicy) -> TestFacts:
    """What selectors ask about, from the test's own objects."""
    from torch.testing._internal import common_device_type as upstream

    found: list[Any] | None = None
    for owner in sources(getattr(test, "parametrize_fn", None) or test):
        if isinstance(owner, upstream.ops):
            found = (found or []) + owner.op_list
    return TestFacts(
        None if found is None else tuple(op.full_name for op in found),
        any(keeps(policy, op) for op in found or ()),
        restrictions.markers(test),
        restrictions.names_of_decorators(test),
    )


def understood(generate: Generator) -> bool:
    """Whether every dtype that comes out was filtered by ``narrow``: nothing in it but ``@ops``, ``@modules``, and
    ``@parametrize`` over something that is not a dtype."""
    from torch.testing._internal import common_device_type as upstream
    from torch.testing._internal.common_modules import modules
    from torch.testing._internal.common_utils import parametrize

    if isinstance(generate, MethodType):
        owner = generate.__self__
        if isinstance(owner, parametrize):
            return not {"dtype", "dtypes"} & set(owner.arg_names)
        return isinstance(owner, upstream.ops | modules)
    parts = getattr(generate, "__defaults__", None) or ()
    return getattr(generate, "__name__", "") == "composite_fn" and len(parts) == 2 and all(map(understood, parts))


class _Adapter:
    def __init__(self, generate: Generator) -> None:
        self._parametrize_test = generate


def _ops(owner: Any, policy: TestPolicy, why_empty: list[str]) -> Generator:
    from torch.testing._internal import common_device_type as upstream

    def generate(test: Any, generic_cls: Any, device_cls: Any) -> Iterator[Any]:
        # upstream raises for a list that this empties, and the file would be lost
        allowed = getattr(device_cls, "op_allowlist", None)
        kept = owner.op_list
        if allowed is not None:
            kept = [op for op in kept if op.full_name in allowed]
        if policy.limits_ops:
            kept = _kept(policy, kept)
        kept = [*kept, *_injected(policy, kept)]
        if not kept:
            why_empty.append(f"none of the test's {len(owner.op_list)} ops is supported by the device and its configs")
            return iter(())
        if policy.has_inputs:
            kept = [_with_inputs(policy, op) for op in kept]
        part = copy.copy(owner)
        part.op_list = kept
        if not policy.limits_dtypes:
            return part._parametrize_test(test, generic_cls, device_cls)  # type: ignore[no-any-return]
        fixed = owner.opinfo_dtypes
        if not policy.dtypes_differ and (not isinstance(fixed, upstream.OpDTypes) or fixed in _plain_categories()):
            stays = op_dtypes.stays(policy, kept[0])  # for all alike: upstream filters by itself
            part.allowed_dtypes = stays if owner.allowed_dtypes is None else stays & set(owner.allowed_dtypes)
            return part._parametrize_test(test, generic_cls, device_cls)  # type: ignore[no-any-return]
        return op_dtypes.generate(part, policy, test, generic_cls, device_cls, why_empty)

    return generate


def _plain_categories() -> tuple[Any, ...]:
    """Categories whose dtypes upstream takes as a set, and cuts by ``allowed_dtypes``."""
    from torch.testing._internal.common_device_type import OpDTypes

    return (
        OpDTypes.supported,
        OpDTypes.unsupported,
        OpDTypes.supported_backward,
        OpDTypes.unsupported_backward,
    )


def _kept(policy: TestPolicy, ops: list[Any]) -> list[Any]:
    edits = policy.op_edits
    if policy.lists_ops and edits is not None:  # as `keeps` has it, for long lists
        return [op for op in ops if edits.keeps(op.name, op.variant_test_name)]
    return [op for op in ops if keeps(policy, op)]


def keeps(policy: TestPolicy, op: Any) -> bool:
    """Whether an OpInfo stays. What only the sheet asks about is looked up only when the sheet decides."""
    if policy.lists_ops:
        return policy.keeps_op(op.name, op.variant_test_name)
    return policy.keeps_op(op.name, op.variant_test_name, aten_name(op), composite(op))


def _with_inputs(policy: TestPolicy, op: Any) -> Any:
    inputs = policy.op_inputs(op.name, op.variant_test_name)
    return op if inputs is None else given.op_with(op, inputs)


def _injected(policy: TestPolicy, kept: list[Any]) -> list[Any]:
    """OpInfos that the config adds to the list."""
    from selector.configs import op_names

    missing = set(policy.injected_ops())
    for op in kept:
        if not missing:
            return []
        missing -= op_names(op.full_name)
    if not missing:
        return []
    from torch.testing._internal import common_methods_invocations as database

    present = {op.full_name for op in kept}
    return [
        op
        for op in (*database.op_db, *database.python_ref_db)
        if missing & op_names(op.name, op.variant_test_name)
        and op.full_name not in present
        and policy.keeps_op(op.name, op.variant_test_name)
    ]


def described(kwargs: dict[str, Any]) -> tuple[str | None, str, tuple[str, ...]]:
    """(op or module name, op variant, dtype names) of one variant, from the objects it will be called with."""
    from torch.testing._internal.common_modules import ModuleInfo
    from torch.testing._internal.opinfo.core import OpInfo

    op: str | None = None
    op_variant = ""
    for value in kwargs.values():
        if isinstance(value, OpInfo):
            op, op_variant = value.name, value.variant_test_name
        elif isinstance(value, ModuleInfo):
            op = value.name
    dtypes = kwargs.get("dtypes", kwargs.get("dtype"))
    if isinstance(dtypes, torch.dtype):
        dtypes = (dtypes,)
    if not isinstance(dtypes, (tuple, list)) or not all(isinstance(d, torch.dtype) for d in dtypes):
        dtypes = ()
    return op, op_variant, tuple(dtype_name(d) for d in dtypes)
