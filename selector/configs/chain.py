"""Which ops and dtypes of a test stay: configs and the device's sheet put together.

The runtime (``relay.reuse``) and ``explain`` both ask here, with names taken from OpInfo and dtype *objects*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from selector.configs.capability import Capability
from selector.configs.model import DtypeEdits, OpEdits
from selector.configs.rules import ReuseConfigs
from selector.model import TestId

T = TypeVar("T")


@dataclass(frozen=True)
class Chain:
    """The filter of one test. Op and module names are OpInfo's, dtypes torch's without ``torch.``."""

    test: TestId
    configs: ReuseConfigs | None
    capability: Capability | None
    _edits: dict[tuple[str | None, str], DtypeEdits] = field(default_factory=dict, repr=False, compare=False)
    _made: dict[tuple[str | None, str], Any] = field(default_factory=dict, repr=False, compare=False)
    _ops: list[OpEdits | None] = field(default_factory=list, repr=False, compare=False)

    @cached_property
    def lists_ops(self) -> bool:
        """Whether a config lists the ops of this test, so that the sheet is not asked."""
        edits = self.op_edits
        return edits is not None and (edits.supported is not None or bool(edits.include))

    @cached_property
    def limits_ops(self) -> bool:
        """Whether any op can be left out."""
        edits = self.op_edits
        listed = edits is not None and (edits.supported is not None or bool(edits.exclude))
        return listed or (self.capability is not None and not self.lists_ops)

    @cached_property
    def limits_dtypes(self) -> bool:
        """Whether any dtype can be left out or added."""
        if self.capability is not None:
            return True
        if self.configs is None:
            return False
        edits = self.configs.dtypes(self.test)
        return edits != DtypeEdits() or self.configs.has_op_dtypes(self.test)

    @cached_property
    def has_op_dtypes(self) -> bool:
        """Whether the dtype filter differs from op to op."""
        return self.configs is not None and self.configs.has_op_dtypes(self.test)

    @cached_property
    def ops_with_dtypes(self) -> frozenset[str]:
        """The names under which ``supported_ops`` lists dtypes: ops of other names are all filtered alike."""
        return self.configs.ops_with_dtypes(self.test) if self.configs is not None else frozenset()

    @cached_property
    def dtypes_differ(self) -> bool:
        """Whether the filter differs from op to op, or adds dtypes: then no one set of dtypes says it."""
        if self.configs is None:
            return False
        return self.configs.has_op_dtypes(self.test) or bool(self.configs.dtypes(self.test).include)

    def once(self, op: str, op_variant: str, make: Callable[[frozenset[str]], T], every: Iterable[str]) -> T:
        """``make`` of the dtypes of ``every`` that stay for an op; made once for ops that are filtered alike."""
        key = (op, op_variant) if self.configs is not None and self.configs.has_op_dtypes(self.test) else (None, "")
        if key not in self._made:
            self._made[key] = make(self.dtypes(every, *key))
        found: T = self._made[key]
        return found

    @property
    def op_edits(self) -> OpEdits | None:
        if not self._ops:
            self._ops.append(self.configs.ops(self.test) if self.configs else None)
        return self._ops[0]

    def keeps_op(self, name: str, variant: str = "", aten: str = "", composite: bool = False) -> bool:
        """Whether an OpInfo stays in the test's list.

        A config that lists its ops decides alone. Without such a list the sheet does, unless the op is ``composite``:
        then it runs as other operators (``softmax`` as ``_softmax``), and only running it shows whether all are there.
        """
        edits = self.op_edits
        if edits is not None:
            if not edits.keeps(name, variant):
                return False
            if edits.supported is not None or edits.include:
                return True
        return self.capability is None or composite or self.capability.supports_op(aten or name)

    def keeps_module(self, name: str) -> bool:
        return self.configs is None or self.configs.modules(self.test).keeps(name)

    def injected_ops(self) -> frozenset[str]:
        """Ops that the config adds to this test's list."""
        return self.op_edits.include if self.op_edits is not None else frozenset()

    def injected_modules(self) -> frozenset[str]:
        """Modules that the config adds to this test's list."""
        return self.configs.modules(self.test).include if self.configs is not None else frozenset()

    def dtypes(self, allowed: Iterable[str], op: str | None = None, op_variant: str = "") -> frozenset[str]:
        """``(sheet ∩ config ∩ allowed) + include - exclude``."""
        kept = frozenset(allowed)
        if self.capability is not None:
            kept = frozenset(name for name in kept if self.capability.supports_dtype(name))
        if self.configs is None:
            return kept
        return self.dtype_edits(op, op_variant).apply(kept)

    def dtype_edits(self, op: str | None = None, op_variant: str = "") -> DtypeEdits:
        """What the configs say about dtypes; the same object for ops that are filtered alike."""
        key = (op, op_variant)
        if key not in self._edits:
            self._edits[key] = self.configs.dtypes(self.test, op, op_variant) if self.configs else DtypeEdits()
        return self._edits[key]

    def keeps_dtype(self, name: str, op: str | None = None, op_variant: str = "") -> bool:
        return name in self.dtypes((name,), op, op_variant)

    def included_dtypes(self, op: str | None = None, op_variant: str = "") -> frozenset[str]:
        """Dtypes that the config adds beyond what op and decorator allow."""
        return self.dtypes((), op, op_variant)
