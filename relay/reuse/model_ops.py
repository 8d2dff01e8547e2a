"""Model cases as generated tests: each call on the device, compared with the CPU under the config's tolerance.

The names of operators and modules come from configs: they are looked up in a closed set of places, so that no config
can name code that is not an operator.
"""

from __future__ import annotations

import importlib
import json
import operator
import os
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from relay.reuse.model_inputs import Builder, Unbuildable, on

CASES = "model_cases.json"
CLASS = "TestModelOps"
_MODULES_OF_OPERATORS = ("torch.functional", "torch.nn.functional", "torch._tensor", "torch._jit_internal")
_DENIED = frozenset(("from_file", "import_ir_module", "import_ir_module_from_buffer"))
_DEFAULT = {torch.float16: (1e-3, 1e-3), torch.bfloat16: (1.6e-2, 1e-2), torch.float32: (1.3e-5, 1e-5)}
"""relative and absolute tolerance where the config sets none; other dtypes: torch.testing's own"""


def make_class(file: str, module: str) -> Any:
    """The test class of the cases beside ``file``."""
    from torch.testing._internal.common_utils import TestCase

    folder = Path(file).parent
    cases = json.loads((folder / CASES).read_text(encoding="utf-8"))
    methods = {case["method"]: _method(case, folder / "inputs") for case in cases}
    return type(CLASS, (TestCase,), {"__module__": module, **methods})


def _method(case: Mapping[str, Any], folder: Path) -> Callable[..., None]:
    def test(self: Any, device: str) -> None:
        try:
            run = _op_run(case) if case["kind"] == "op" else _module_run(case, folder)
            build = Builder(case["seed"], folder if folder.is_dir() else None)
            args = [build.argument(spec) for spec in case["args"]]
            kwargs = {key: build.keyword(value) for key, value in case["kwargs"].items()}
        except Unbuildable as exc:
            self.skipTest(str(exc))
        with torch.no_grad():
            here = on(args, "cpu"), on(kwargs, "cpu")
            there = on(args, device), on(kwargs, device)
            try:
                wanted = run("cpu", *here)
            except Unbuildable as exc:
                self.skipTest(str(exc))
            except (TypeError, ValueError, IndexError, RuntimeError) as exc:
                # not the device's fault: the config says too little, or something that is no call at all
                self.skipTest(f"the call does not run on the CPU either: {exc}")
            got = run(device, *there)
        compare((got, there), (wanted, here), case["precision"])

    test.__name__ = test.__qualname__ = case["method"]
    test.__doc__ = f"{case['name']} as in {', '.join(case['models'])} ({', '.join(case['sources'][:3])})"
    return test


def compare(got: Any, wanted: Any, precision: Mapping[str, Sequence[float | None]]) -> None:
    """Every tensor of the result, and of the inputs (an operator may write into them), against the CPU's."""
    ours, theirs = tree_leaves(got), tree_leaves(wanted)
    if len(ours) != len(theirs):
        raise AssertionError(f"{len(ours)} results on the device, {len(theirs)} on the CPU")
    for mine, other in zip(ours, theirs, strict=True):
        if not isinstance(other, torch.Tensor):
            continue
        name = str(other.dtype).removeprefix("torch.")
        atol, rtol = precision.get(name, (None, None))
        if atol is None and rtol is None and other.dtype in _DEFAULT:
            rtol, atol = _DEFAULT[other.dtype]
        given = {"atol": atol or 0.0, "rtol": rtol or 0.0} if atol is not None or rtol is not None else {}
        torch.testing.assert_close(mine.cpu(), other, equal_nan=True, check_stride=False, **given)


def _op_run(case: Mapping[str, Any]) -> Callable[[str, Any, Any], Any]:
    function = resolve(case["name"])
    return lambda _, args, kwargs: function(*args, **kwargs)


def _module_run(case: Mapping[str, Any], folder: Path) -> Callable[[str, Any, Any], Any]:
    cls = resolve_module(case["name"], packages())
    inputs = case["constructor"] or {}

    def run(device: str, args: Any, kwargs: Any) -> Any:
        build = Builder(case["seed"], folder if folder.is_dir() else None)
        made = [on(build.argument(spec), "cpu") for spec in inputs.get("args") or ()]
        named = {key: on(build.keyword(value), "cpu") for key, value in (inputs.get("kwargs") or {}).items()}
        torch.manual_seed(case["seed"])
        module = cls(*made, **named)
        floating = next((t.dtype for t in tree_leaves((args, kwargs)) if _is_floating(t)), None)
        return module.to(floating).to(device)(*args, **kwargs)

    return run


def _is_floating(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def resolve(name: str) -> Callable[..., Any]:
    """The operator that a config names. Raises Unbuildable when it is none."""
    prefix, _, last = name.rpartition(".")
    places: dict[str, Sequence[Any]] = {
        "torch": (torch, torch.Tensor, operator),
        "": (torch, torch.Tensor, operator, torch.nn.functional),
        "torch.Tensor": (torch.Tensor,),
        "torch.nn.functional": (torch.nn.functional,),
        "torch.linalg": (torch.linalg,),
        "torch.special": (torch.special,),
        "torch.fft": (torch.fft,),
        "operator": (operator,),
        "_operator": (operator,),
    }
    for place in places.get(prefix, ()):
        found = getattr(place, last, None) if last.isidentifier() and last not in _DENIED else None
        if found is not None and (last in _PYTHONS if place is operator else _is_operator(found)):
            return found  # type: ignore[no-any-return]
    if prefix.startswith("torch.ops.") and all(part.isidentifier() for part in name.split(".")):
        packet: Any = torch.ops
        for part in name.split(".")[2:]:
            packet = getattr(packet, part, None)
        if isinstance(packet, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
            return packet  # type: ignore[no-any-return]
    raise Unbuildable(f"{name} is not an operator of this torch")


_PYTHONS = frozenset(
    (
        *("getitem", "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "neg", "and_", "or_", "xor", "invert"),
        *("matmul", "lt", "le", "gt", "ge", "eq", "ne", "iadd", "isub", "imul", "itruediv"),
    )
)
"""what of Python's ``operator`` is an operator on tensors; ``call`` and its like are not"""


def _is_operator(found: Any) -> bool:
    if isinstance(found, types.BuiltinFunctionType | types.MethodDescriptorType | types.WrapperDescriptorType):
        return True
    return isinstance(found, types.FunctionType) and found.__module__ in _MODULES_OF_OPERATORS


PACKAGES = "RELAY_MODULE_PACKAGES"
"""packages beside torch.nn whose modules configs may name, separated by commas: importing them runs their code"""


_allowed: frozenset[str] | None = None


def allow_packages(names: Iterable[str]) -> None:
    """Says it for this process, whose environment upstream's tests can see: nothing of ours stands there."""
    global _allowed
    _allowed = frozenset(names)


def packages() -> frozenset[str]:
    """What ``allow_packages`` said, else the environment."""
    return frozenset(filter(None, os.environ.get(PACKAGES, "").split(","))) if _allowed is None else _allowed


def resolve_module(name: str, allowed: frozenset[str] = frozenset()) -> Any:
    """A class of torch.nn, or of one of the ``allowed`` packages, whose code the machine's owner lets configs run.

    Raises Unbuildable for every other.
    """
    prefix, _, last = name.rpartition(".")
    found: Any = None
    if prefix == "torch.nn" or prefix.startswith("torch.nn.modules"):
        found = getattr(torch.nn, last, None)
    elif prefix.partition(".")[0] in allowed:
        try:
            found = getattr(importlib.import_module(prefix), last, None)
        except ImportError as exc:
            raise Unbuildable(f"{name} cannot be imported here: {exc}") from exc
    if not (isinstance(found, type) and issubclass(found, torch.nn.Module)):
        raise Unbuildable(f"{name} is not a module of {', '.join(['torch.nn', *sorted(allowed)])}")
    return found
