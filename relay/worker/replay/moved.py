"""Names that upstream's tests of 2.6 import and that torch has moved or renamed since.

A replay wants tests that run on the installed torch. Where only an older tree is to be had, its files import names that
stand elsewhere now; these are put back where the old files look for them. What a test does is not touched, and only
tests that pass without a fault are in a pool.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

_INTERNAL = "torch.testing._internal."
_INVOCATIONS = f"{_INTERNAL}common_methods_invocations"
MOVED = (
    (_INVOCATIONS, "xfail", f"{_INTERNAL}common_device_type", "xfail"),
    (_INVOCATIONS, "skip", f"{_INTERNAL}common_device_type", "skip"),
    (_INVOCATIONS, "binary_ufuncs_and_refs", _INVOCATIONS, "binary_ufuncs"),
    (f"{_INTERNAL}common_utils", "dtype_abbrs", "torch.utils._dtype_abbrs", "dtype_abbrs"),
    (f"{_INTERNAL}common_cuda", "tf32_is_not_fp32", f"{_INTERNAL}common_mkldnn", "tf32_is_not_fp32"),
    (f"{_INTERNAL}common_mkldnn", "bf32_on_and_off", f"{_INTERNAL}common_mkldnn", "reduced_f32_on_and_off"),
)  # fmt: skip
"""(module, name) as older tests import it -> (module, name) now."""


def put_back() -> list[str]:
    """Sets each name that its module no longer has and that is found at its new place. Returns what was set."""
    done = []
    for module, name, new_module, new_name in MOVED:
        old, new = importlib.import_module(module), importlib.import_module(new_module)
        if not hasattr(old, name) and hasattr(new, new_name):
            setattr(old, name, getattr(new, new_name))
            done.append(f"{module}.{name}")
    done += _skip_ops() + _module_tests()
    return done


def _skip_ops() -> list[str]:
    """``skipOps`` took a class, a test and a list; now it takes the list alone and reads the others off the test."""
    old = importlib.import_module(f"{_INTERNAL}common_methods_invocations")
    new = importlib.import_module(f"{_INTERNAL}common_device_type")
    if hasattr(old, "skipOps") or not hasattr(new, "skipOps"):
        return []

    def skip_ops(*given: Any) -> Callable[[Any], Any]:
        decorate: Callable[[Any], Any] = new.skipOps(given[-1])
        return decorate

    vars(old)["skipOps"] = skip_ops
    return ["skipOps"]


def _module_tests() -> list[str]:
    """A list became a function that makes it."""
    module = importlib.import_module(f"{_INTERNAL}common_nn")
    if hasattr(module, "new_module_tests") or not hasattr(module, "get_new_module_tests"):
        return []
    vars(module)["new_module_tests"] = module.get_new_module_tests()
    return ["new_module_tests"]
