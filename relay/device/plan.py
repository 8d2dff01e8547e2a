"""What is worth knowing about an operator once, not once a call."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

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
        arguments = _arguments(schema)
        returns = [(str(r.type), r.alias_info) for r in schema.returns]
        qualified = schema.name
        self.op = op
        self.name = qualified.removeprefix("aten::")
        self.overload = schema.overload_name or "default"
        # `redispatch` to CPU, not a plain call: a plain call would meet the user's CPU autocast on the way.
        self.call: Kernel = op._handle.redispatch_boxed
        self.host_tensors_ok = self.name in _HOST_TENSORS_OK or not qualified.startswith("aten::")
        self.tensor_at = [i for i, a in enumerate(arguments) if a.is_tensor]
        self.outs = [a.name for a in arguments if a.is_out]
        self.tensors = len(self.tensor_at)
        scalar = _SCALAR_OVERLOADS.get(self.overload)
        packet = op.overloadpacket
        # Only where the number is the second operand: `2 - x` and its like have overloads of other shapes.
        self.scalar_call: Kernel | None = (
            getattr(packet, scalar)._handle.redispatch_boxed if scalar and scalar in packet.overloads() else None
        )
        self.writes = any(a.is_written for a in arguments)
        self.views = any(alias is not None and not alias.is_write for _, alias in returns)
        self.plain, self.writes_first = _is_plain(qualified, op.tags, arguments, returns)
        self.several = any(a.type in _SEVERAL for a in arguments) or [type_ for type_, _ in returns] != ["Tensor"]
        self.writes_out = _writes_one_out(arguments, len(returns))
        self.multiplies = multiplies(self.name)
        self.names_device = any("Device" in a.type for a in arguments)
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


_COMPOSITES = ("CompositeImplicitAutograd", "CompositeExplicitAutograd", STRUCTURED)


def by_its_kernel(name: str) -> bool:
    """Whether torch has a kernel of the CPU's for ``aten::neg_``, say, and no composite one for every backend."""
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    return bool(has_kernel(name, "CPU")) and not any(has_kernel(name, key) for key in _COMPOSITES)


class _Argument(NamedTuple):
    """What a schema says of an argument. torch makes a new object of each at every look."""

    name: str
    type: str
    kwarg_only: bool
    is_out: bool
    aliases: bool
    is_written: bool

    @property
    def is_tensor(self) -> bool:
        return self.type in _SINGLE

    @property
    def is_tensors(self) -> bool:
        return self.type in _SINGLE or self.type in _SEVERAL


def _arguments(schema: Any) -> list[_Argument]:
    found = []
    for a in schema.arguments:
        alias = a.alias_info
        written = alias is not None and alias.is_write
        found.append(_Argument(a.name, str(a.type), a.kwarg_only, a.is_out, alias is not None, written))
    return found


def _is_plain(name: str, tags: Any, arguments: list[_Argument], returns: list[tuple[str, Any]]) -> tuple[bool, bool]:
    """(plain, writes_first) of an operator; ``returns``: types and alias infos."""
    if not returns or any(type_ not in ("Tensor", "List[Tensor]") for type_, _ in returns):
        return False, False
    if any("Tensor" in a.type and (a.kwarg_only or not a.is_tensors) for a in arguments):
        return False, False
    touched = [a for a in arguments if a.aliases]
    if not touched:
        return all(alias is None for _, alias in returns), False
    first = arguments[0]
    written = len(touched) == 1 and first.is_written and first.type == "Tensor" and len(returns) == 1
    written = written and name.endswith("_") and torch.Tag.inplace_view not in tags  # which keeps its sizes
    return written, written


def _writes_one_out(arguments: list[_Argument], returns: int) -> bool:
    tensors = [a for a in arguments if "Tensor" in a.type]
    written = [a for a in tensors if a.aliases]
    if len(written) != 1 or not written[0].is_out or written[0].type != "Tensor" or returns != 1:
        return False
    return all(a is written[0] or (a.is_tensors and not a.kwarg_only) for a in tensors)


_plans: dict[int, Plan] = {}


def plan_of(op: Any) -> Plan:
    """The plan of an `OpOverload`. Keyed by identity: hashing an OpOverload is slow, and they live for ever."""
    plan = _plans.get(id(op))
    if plan is None:
        plan = _plans[id(op)] = Plan(op)
    return plan
