"""What the emulated device can do: which operators, which dtypes, which operators fall back to the CPU. Torch-free."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Protocol

from relay.device.errors import UnsupportedDtype
from relay.device.machine import Machine

if TYPE_CHECKING:
    from relay.device.meter import Memo


class CapabilityLike(Protocol):
    """The part of ``selector.configs.capability.Capability`` that the device reads."""

    @property
    def name(self) -> str: ...
    @property
    def dtypes(self) -> frozenset[str]: ...
    @property
    def ops(self) -> frozenset[str] | None: ...
    @property
    def fallback_ops(self) -> frozenset[str]: ...
    @property
    def limits(self) -> Mapping[str, object]: ...
    @property
    def machine(self) -> Mapping[str, float]: ...


class Verdict(IntEnum):
    """How an operator is served."""

    KERNEL = 0
    FALLBACK = 1
    REFUSED = 2


# torch's C++ names, which a plugin's message shows.
_CPP_NAMES = {
    "uint8": "Byte",
    "int8": "Char",
    "int16": "Short",
    "int32": "Int",
    "int64": "Long",
    "float16": "Half",
    "float32": "Float",
    "float64": "Double",
    "complex32": "ComplexHalf",
    "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
    "bool": "Bool",
    "bfloat16": "BFloat16",
    "uint16": "UInt16",
    "uint32": "UInt32",
    "uint64": "UInt64",
    "float8_e5m2": "Float8_e5m2",
    "float8_e4m3fn": "Float8_e4m3fn",
}


@dataclass(frozen=True, eq=False)
class Policy:
    """Compared by identity: kernels cache their verdict for the policy in force.

    ``ops`` and ``fallback_ops`` are aten names without ``aten::``: a base name (``add``, which also stands for
    ``add_`` and every overload) or one overload (``add.Scalar``). None: every one. ``dtypes`` are names without
    ``torch.``; None: every one. ``round_float16`` keeps 9 mantissa bits of float16 results (our reading of the
    device's SEN169 format); ``int64_as_int32`` wraps int64 results to 32 bits, as the device stores them.
    ``memory_bytes``: what one tensor may take at most; None: as much as the host has.
    """

    name: str = "unlimited"
    ops: frozenset[str] | None = None
    dtypes: frozenset[str] | None = None
    fallback_ops: frozenset[str] = frozenset()
    memory_bytes: int | None = None
    round_float16: bool = False
    int64_as_int32: bool = False
    machine: Machine = field(default_factory=Machine)
    costs: dict[Any, Memo] = field(default_factory=dict, init=False, repr=False)
    """Of operators that it serves as they are: what they cost, by sizes and dtypes (`relay.device.plain`)."""
    _dtype_ok: dict[object, bool] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def from_capability(cls, capability: CapabilityLike) -> Policy:
        """The policy of a capability sheet. ValueError when it lists no dtype or an unknown machine figure.

        Of ``limits`` two are known here: ``round_float16`` and ``int64_as_int32`` (booleans); the others are for
        planning and are left alone.
        """
        if not capability.dtypes:
            raise ValueError(f"capability {capability.name!r} lists no dtype: such a device can hold no tensor")
        return cls(
            name=capability.name,
            ops=None if capability.ops is None else frozenset(_bare(op) for op in capability.ops),
            dtypes=frozenset(d.removeprefix("torch.") for d in capability.dtypes),
            fallback_ops=frozenset(_bare(op) for op in capability.fallback_ops),
            round_float16=capability.limits.get("round_float16") is True,
            int64_as_int32=capability.limits.get("int64_as_int32") is True,
            memory_bytes=int(capability.machine["memory_bytes"]) if "memory_bytes" in capability.machine else None,
            machine=Machine.from_figures(capability.machine, f"capability {capability.name!r}"),
        )

    @property
    def changes_numbers(self) -> bool:
        """Whether results are altered to look like the device's own formats."""
        return self.round_float16 or self.int64_as_int32

    def check_dtype(self, dtype: object) -> None:
        """Raise `UnsupportedDtype` unless ``dtype`` (a ``torch.dtype``) is one of the device's."""
        if self.dtypes is None:
            return
        good = self._dtype_ok.get(dtype)
        if good is None:
            good = self._dtype_ok[dtype] = str(dtype).removeprefix("torch.") in self.dtypes
        if not good:
            name = str(dtype).removeprefix("torch.")
            raise UnsupportedDtype(_CPP_NAMES.get(name, name))

    def knows(self, dtype: object) -> bool:
        """Whether ``dtype`` was asked for before, and is one of the device's."""
        return self._dtype_ok.get(dtype, False)

    def judge(self, name: str, overload: str) -> Verdict:
        """How the aten operator ``name`` (``add_``) with overload ``overload`` (``Tensor``, ``default``) is served.

        A fallback named explicitly wins over a kernel: the sheet says where the operator really runs.
        """
        # `__and__` and its like are names of their own, not in-place forms.
        base = name if name.startswith("__") else name.rstrip("_")
        spellings = {name, base, f"{name}.{overload}", f"{base}.{overload}"}
        if spellings & self.fallback_ops:
            return Verdict.FALLBACK
        if self.ops is None or spellings & self.ops:
            return Verdict.KERNEL
        return Verdict.REFUSED


def _bare(op: str) -> str:
    return op.removeprefix("aten::").removeprefix("aten.")


UNLIMITED = Policy()
"""Every operator, every dtype."""


class _Current:
    """One for the process, not for the thread: a test's own threads, and autograd's for them, have the same limits."""

    __slots__ = ("costs", "one_way", "policy")

    def __init__(self) -> None:
        self.one_way = False
        self.put(UNLIMITED)

    def put(self, policy: Policy) -> None:
        self.policy = policy
        self.costs: dict[Any, Memo] = {} if self.one_way else policy.costs


CURRENT = _Current()


def current_policy() -> Policy:
    """The policy in force."""
    return CURRENT.policy


def set_policy(policy: Policy) -> None:
    """Put ``policy`` in force for the rest of the process."""
    CURRENT.put(policy)


def take_one_way() -> None:
    """From now on every operator goes through `relay.device.fallback.run`, for those who watch it there."""
    CURRENT.one_way = True
    CURRENT.put(CURRENT.policy)


class use_policy:  # written out: a generator's context would cost more than the operators of a comparison
    """Put ``policy`` in force for a region."""

    __slots__ = ("_before", "_policy")

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def __enter__(self) -> None:
        self._before = CURRENT.policy
        CURRENT.put(self._policy)

    def __exit__(self, *exc: object) -> None:
        CURRENT.put(self._before)
