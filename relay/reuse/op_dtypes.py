"""Which dtypes each op of an ``@ops`` test is generated for, where a config makes them differ from op to op."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

import torch

from relay.reuse.dtypes import dtype_name, dtype_of
from relay.reuse.policy import TestPolicy
from selector.configs import op_names

Choice = tuple[Any, frozenset[Any] | None]
"""``dtypes`` and ``allowed_dtypes`` of ``@ops``, as an op is to have them"""


def generate(
    part: Any, policy: TestPolicy, test: Any, generic_cls: Any, device_cls: Any, why_empty: list[str]
) -> Iterator[Any]:
    """The variants of ``part``, a copy of an ``@ops`` object. Neighbours that want the same dtypes go to upstream as
    one list that names them, so that nothing is generated to be thrown away."""
    from torch.testing._internal.common_device_type import OpDTypes

    generated = False
    if part.opinfo_dtypes in (OpDTypes.none, OpDTypes.any_common_cpu_cuda_one):
        for made in part._parametrize_test(test, generic_cls, device_cls):  # upstream cannot cut these by a set
            dtype = made[2].get("dtype")
            if dtype is None or dtype in stays(policy, made[2]["op"]):
                generated = True
                yield made
    else:
        run = copy.copy(part)  # one for all: upstream is through with it before the next neighbours come
        for (dtypes, allowed), ops in groupby(part.op_list, _chooser(part, policy, device_cls.device_type)):
            run.op_list, run.opinfo_dtypes, run.allowed_dtypes = list(ops), dtypes, allowed
            variants = run._parametrize_test(test, generic_cls, device_cls)
            for first in variants:
                generated = True
                yield first
                yield from variants
    if not generated:
        why_empty.append(
            f"none of the dtypes of its {len(part.op_list)} ops is supported by the device and its configs"
        )


def stays(policy: TestPolicy, op: Any) -> frozenset[Any]:
    """The dtype objects that stay for an op, of all that there are."""
    every = _every_dtype()
    return policy.once(op.name, op.variant_test_name, lambda names: frozenset(every[n] for n in names), every)


@functools.cache
def _every_dtype() -> dict[str, Any]:
    return {dtype_name(d): d for d in vars(torch).values() if isinstance(d, torch.dtype)}


def _chooser(part: Any, policy: TestPolicy, device_type: str) -> Callable[[Any], Choice]:
    from torch.testing._internal.common_device_type import ANY_DTYPE_ORDER, OpDTypes

    category, allowed = part.opinfo_dtypes, part.allowed_dtypes
    allowed = None if allowed is None else frozenset(allowed)

    def one(op: Any) -> Choice:
        """Upstream's first choice among the dtypes that are left, not: its first choice or none."""
        left = stays(policy, op) if allowed is None else stays(policy, op) & allowed
        forward = left.intersection(op.supported_dtypes(device_type))
        both = forward.intersection(op.supported_backward_dtypes(device_type))
        return tuple([d for d in ANY_DTYPE_ORDER if d in (both or forward)][:1]), None

    def cut(op: Any) -> Choice:
        """A test of *unsupported* dtypes, or of those with gradients, must not get others."""
        left = stays(policy, op)
        return category, left if allowed is None else left & allowed

    fixed = None if isinstance(category, OpDTypes) else frozenset(category)
    alike: dict[Any, Choice] = {}
    plain: dict[int, tuple[Choice, frozenset[Any]]] = {}
    named = policy.ops_with_dtypes
    common = policy.dtype_edits()

    def supported(op: Any) -> Choice:
        """The config may add dtypes. Where an op has them anyway, as where none are added, upstream's own dtypes are
        cut by one set: ops that are filtered alike then have the same choice, whatever each of them supports."""
        edits = common
        if named and not named.isdisjoint(op_names(op.name, op.variant_test_name)):
            edits = policy.dtype_edits(op.name, op.variant_test_name)
        number = id(edits)  # the policy keeps them, so that no other gets its number
        if number not in plain:
            left = stays(policy, op)
            added = frozenset(map(dtype_of, policy.included_dtypes(op.name, op.variant_test_name)))
            plain[number] = (category, left if allowed is None else left & allowed | added), added
        choice, added = plain[number]
        if not added:
            return choice
        listed = fixed if fixed is not None else frozenset(op.supported_dtypes(device_type))
        return choice if added <= listed else with_added(op, listed, number)

    def with_added(op: Any, listed: frozenset[Any], number: int) -> Choice:
        """Dtypes that the op does not have are in it: they are named one by one."""
        if (listed, number) not in alike:
            there = listed if allowed is None else listed & allowed
            names = policy.dtypes(map(dtype_name, there), op.name, op.variant_test_name)
            alike[listed, number] = tuple(map(dtype_of, sorted(names))), None
        return alike[listed, number]

    if category == OpDTypes.any_one:
        return one
    return supported if fixed is not None or category == OpDTypes.supported else cut
