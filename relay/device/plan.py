"""What is worth knowing about an operator once, not once a call."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch

from relay.device.errors import FallbackWarning, UnsupportedOp
from relay.device.memory import NAME
from relay.device.meter import METER
from relay.device.numerics import multiplies
from relay.device.policy import Policy, Verdict

Kernel = Callable[..., Any]
STRUCTURED = "CompositeExplicitAutogradNonFunctional"
"""The key under which torch serves structured operators for backends without a kernel of their own."""
_BASES = ("abs", "logical_and", "logical_not", "logical_or", "logical_xor", "nan_to_num")
BY_HAND = frozenset(["complex", "mean", "polar", *_BASES, *(f"{base}_" for base in _BASES)])
"""Operators that torch writes by hand as it makes the structured ones: memory from us, then the ``.out`` form."""
# Operators that take index or source tensors from the host, as real devices do.
_HOST_TENSORS_OK = frozenset(
    ["index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index", "_unsafe_index_put", "set_"]
)
_SCALAR_OVERLOADS = {"Tensor": "Scalar", "out": "Scalar_out", "Tensor_out": "Scalar_out", "Tensor_mode": "Scalar_mode"}
_SINGLE = ("Tensor", "Optional[Tensor]")
_SEVERAL = ("List[Tensor]", "List[Optional[Tensor]]", "Optional[List[Tensor]]")


class Plan:
    """``call``: the CPU's kernel. ``views``: some result may lie in an argument's memory. ``plain``: only tensors come
    out, which are new or (``writes_first``) the first argument, its sizes kept. ``several``: of a plain one, that
    tensors come in lists, or more than one comes out. ``writes``: some argument is written to. ``kernel``: what runs
    it, once `relay.device.fallback` made it. ``resolved``: torch does away with the conj and neg bits of its arguments.
    ``physical``: a result of its has no such bits itself. ``names_device``: a keyword names a device."""

    __slots__ = (
        "_policy",
        "_verdict",
        "call",
        "host_tensors_ok",
        "kernel",
        "multiplies",
        "name",
        "names_device",
        "op",
        "outs",
        "overload",
        "physical",
        "plain",
        "resolved",
        "scalar_call",
        "several",
        "tensor_at",
        "tensors",
        "views",
        "warned",
        "writes",
        "writes_first",
        "writes_out",
    )

    def __init__(self, op: Any) -> None:
        schema = op._schema
        self.op = op
        self.name = schema.name.removeprefix("aten::")
        self.overload = schema.overload_name or "default"
        # `redispatch` to CPU, not a plain call: a plain call would meet the user's CPU autocast on the way.
        self.call: Kernel = op._handle.redispatch_boxed
        self.host_tensors_ok = self.name in _HOST_TENSORS_OK or not schema.name.startswith("aten::")
        self.tensor_at = [i for i, a in enumerate(schema.arguments) if str(a.type) in _SINGLE]
        self.outs = [a.name for a in schema.arguments if a.is_out]
        self.tensors = len(self.tensor_at)
        scalar = _SCALAR_OVERLOADS.get(self.overload)
        packet = op.overloadpacket
        # Only where the number is the second operand: `2 - x` and its like have overloads of other shapes.
        self.scalar_call: Kernel | None = (
            getattr(packet, scalar)._handle.redispatch_boxed if scalar and scalar in packet.overloads() else None
        )
        self.writes = any(a.alias_info is not None and a.alias_info.is_write for a in schema.arguments)
        self.views = any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns)
        self.plain, self.writes_first = _is_plain(op)
        types = [str(a.type) for a in schema.arguments]
        self.several = any(t in _SEVERAL for t in types) or [str(r.type) for r in schema.returns] != ["Tensor"]
        self.writes_out = _writes_one_out(op)
        self.multiplies = multiplies(self.name)
        self.names_device = any("Device" in str(a.type) for a in schema.arguments)
        has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
        self.resolved = not (has_kernel(op.name(), "Conjugate") or has_kernel(op.name(), "Negative"))
        self.physical = torch.Tag.pointwise in op.tags
        self.kernel: Kernel | None = None
        self.warned = False
        self._policy: Policy | None = None
        self._verdict = Verdict.KERNEL

    def qualified(self) -> str:
        """The name in the dispatcher's message. For a structured operator that is its ``.out`` form."""
        name, overload = self.op._schema.name, self.op._schema.overload_name
        base = self.name if self.name.startswith("__") else self.name.rstrip("_")
        packet = getattr(torch.ops.aten, base, None)
        if packet is not None and by_its_out(self.op.name()):
            for out in (f"{overload}_out", "out"):
                if overload != out and out in packet.overloads():
                    return f"aten::{base}.{out}"
        return f"{name}.{overload}" if overload else name

    def admit(self, policy: Policy) -> Verdict:
        """Judge under ``policy`` (remembered); refuse, or warn once of a fallback."""
        if self._policy is not policy:
            self._verdict = policy.judge(self.name, self.overload)
            self._policy = policy
        if self._verdict is Verdict.REFUSED:
            METER.refused("refused_ops")
            raise UnsupportedOp(self.qualified(), NAME)
        if self._verdict is Verdict.FALLBACK and not self.warned:
            self.warned = True
            warnings.warn(
                f"{NAME} has no kernel for aten::{self.name}; it runs on the CPU", FallbackWarning, stacklevel=3
            )
        return self._verdict


def overload(name: str) -> Any:
    """The `OpOverload` called ``name`` (``add.Tensor``, or ``neg`` for a default one) of aten."""
    packet, _, which = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), which or "default")


def by_its_out(name: str) -> bool:
    """Whether torch serves ``aten::abs``, say, by its ``.out`` form where a backend has no kernel for it."""
    if name.removeprefix("aten::") in BY_HAND:
        return True
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(name, STRUCTURED))


def _is_plain(op: Any) -> tuple[bool, bool]:
    """(plain, writes_first) of an operator."""
    schema = op._schema
    if not schema.returns or any(str(r.type) not in ("Tensor", "List[Tensor]") for r in schema.returns):
        return False, False
    if any("Tensor" in str(a.type) and str(a.type) not in _SINGLE + _SEVERAL for a in schema.arguments):
        return False, False
    if any(a.kwarg_only and "Tensor" in str(a.type) for a in schema.arguments):
        return False, False
    touched = [i for i, a in enumerate(schema.arguments) if a.alias_info is not None]
    if not touched:
        return all(r.alias_info is None for r in schema.returns), False
    keeps_sizes = schema.name.endswith("_") and torch.Tag.inplace_view not in op.tags
    written = touched == [0] and schema.arguments[0].alias_info.is_write and keeps_sizes
    written = written and len(schema.returns) == 1 and str(schema.arguments[0].type) == "Tensor"
    return written, written


def _writes_one_out(op: Any) -> bool:
    schema = op._schema
    tensors = [a for a in schema.arguments if "Tensor" in str(a.type)]
    written = [a for a in tensors if a.alias_info is not None]
    if len(written) != 1 or not written[0].is_out or str(written[0].type) != "Tensor" or len(schema.returns) != 1:
        return False
    return all(a is written[0] or (str(a.type) in _SINGLE + _SEVERAL and not a.kwarg_only) for a in tensors)


_plans: dict[int, Plan] = {}


def plan_of(op: Any) -> Plan:
    """The plan of an `OpOverload`. Keyed by identity: hashing an OpOverload is slow, and they live for ever."""
    plan = _plans.get(id(op))
    if plan is None:
        plan = _plans[id(op)] = Plan(op)
    return plan
