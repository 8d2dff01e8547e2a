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
# Operators that take index or source tensors from the host, as real devices do.
_HOST_TENSORS_OK = frozenset(
    ["index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index", "_unsafe_index_put", "set_"]
)
_SCALAR_OVERLOADS = {"Tensor": "Scalar", "out": "Scalar_out", "Tensor_out": "Scalar_out", "Tensor_mode": "Scalar_mode"}
_SINGLE = ("Tensor", "Optional[Tensor]")


class Plan:
    """``call``: the CPU's kernel. ``views``: some result may lie in an argument's memory. ``plain``: tensors come one
    by one, and one comes out, which is new or (``writes_first``) the first argument, its sizes kept. ``writes``: some
    argument is written to."""

    __slots__ = (
        "_policy",
        "_verdict",
        "call",
        "host_tensors_ok",
        "multiplies",
        "name",
        "op",
        "outs",
        "overload",
        "plain",
        "scalar_call",
        "tensor_at",
        "tensors",
        "views",
        "warned",
        "writes",
        "writes_first",
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
        self.multiplies = multiplies(self.name)
        self.warned = False
        self._policy: Policy | None = None
        self._verdict = Verdict.KERNEL

    def qualified(self) -> str:
        """The name in the dispatcher's message. For a structured operator that is its ``.out`` form."""
        name, overload = self.op._schema.name, self.op._schema.overload_name
        base = self.name if self.name.startswith("__") else self.name.rstrip("_")
        packet = getattr(torch.ops.aten, base, None)
        if packet is not None and self.structured():
            for out in (f"{overload}_out", "out"):
                if overload != out and out in packet.overloads():
                    return f"aten::{base}.{out}"
        return f"{name}.{overload}" if overload else name

    def structured(self) -> bool:
        """Whether torch would serve it through its ``.out`` form if we had no kernel."""
        return bool(torch._C._dispatch_has_kernel_for_dispatch_key(self.op.name(), STRUCTURED))

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


def _is_plain(op: Any) -> tuple[bool, bool]:
    """(plain, writes_first) of an operator."""
    schema = op._schema
    if len(schema.returns) != 1 or str(schema.returns[0].type) != "Tensor":
        return False, False
    kinds = [str(a.type) for a in schema.arguments]
    if any("Tensor" in kind and kind not in _SINGLE for kind in kinds):
        return False, False
    touched = [i for i, a in enumerate(schema.arguments) if a.alias_info is not None]
    if not touched:
        return schema.returns[0].alias_info is None, False
    keeps_sizes = schema.name.endswith("_") and torch.Tag.inplace_view not in op.tags
    written = touched == [0] and schema.arguments[0].alias_info.is_write and keeps_sizes
    return written, written


_plans: dict[int, Plan] = {}


def plan_of(op: Any) -> Plan:
    """The plan of an `OpOverload`. Keyed by identity: hashing an OpOverload is slow, and they live for ever."""
    plan = _plans.get(id(op))
    if plan is None:
        plan = _plans[id(op)] = Plan(op)
    return plan
