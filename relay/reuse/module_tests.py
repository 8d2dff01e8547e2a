"""``@modules``: which modules and dtypes stay, which are added, and what they are called with."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from relay.reuse import given
from relay.reuse.dtypes import dtype_name, dtype_of
from relay.reuse.policy import TestPolicy


def narrow(owner: Any, policy: TestPolicy, why_empty: list[str]) -> Callable[..., Iterator[Any]]:
    """The generator of an ``@modules`` object, with the modules, dtypes and inputs that the policy says."""

    def generate(test: Any, generic_cls: Any, device_cls: Any) -> Iterator[Any]:
        kept = [info for info in owner.module_info_list if policy.keeps_module(info.name)]
        kept += _injected_modules(policy, {info.name for info in kept})
        kept += _modules_by_path(policy, {info.name for info in kept})
        if not kept:
            why_empty.append(
                f"none of the test's {len(owner.module_info_list)} modules is supported by the device and its configs"
            )
            return
        generated = 0
        for info in map(partial(_module_with_inputs, policy), kept):
            part = copy.copy(owner)
            listed = set(info.supported_dtypes(device_cls.device_type))
            if owner.allowed_dtypes is not None:
                listed &= owner.allowed_dtypes
            names = policy.dtypes(map(dtype_name, listed), info.name)
            shown = copy.copy(info)
            shown.supported_dtypes = lambda device_type, names=names: {dtype_of(n) for n in sorted(names)}
            part.module_info_list, part.allowed_dtypes = [shown], None
            for made, suffix, kwargs, decorators in part._parametrize_test(test, generic_cls, device_cls):
                generated += 1
                yield made, suffix, {**kwargs, "module_info": info}, decorators
        if not generated:
            why_empty.append(f"none of the dtypes of its {len(kept)} modules is supported by the device and configs")

    return generate


def _injected_modules(policy: TestPolicy, present: set[str]) -> list[Any]:
    wanted = policy.injected_modules()
    if not wanted:
        return []
    from torch.testing._internal.common_modules import module_db

    return [
        info
        for info in module_db
        if info.name not in present and wanted & {info.name, f"torch.{info.name}", info.formatted_name}
    ]


def _modules_by_path(policy: TestPolicy, present: set[str]) -> list[Any]:
    return [given.module_at(item) for item in policy.modules_by_path if item.name not in present]


def _module_with_inputs(policy: TestPolicy, info: Any) -> Any:
    inputs = policy.module_inputs(info.name) if policy.has_inputs else None
    return info if inputs is None else given.module_with(info, inputs)
