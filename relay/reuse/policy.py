"""Which ops and dtypes of a test stay, and how a variant is moded: the configs and the device's sheet put together.

Pure: works on names. ``relay.reuse.parametrize`` takes the names from the OpInfo and dtype *objects* upstream's
generators hand over; nothing takes a generated method name apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from relay.reuse.registry import Registry, VariantRecord
from selector.configs import Capability, Precision, ReuseConfigs
from selector.model import TestId


@dataclass(frozen=True)
class TestPolicy:
    """What may be generated for one test. Op and module names are OpInfo's, dtypes torch's without ``torch.``."""

    __test__ = False  # pytest: not a test class

    test: TestId
    configs: ReuseConfigs | None
    capability: Capability | None

    @cached_property
    def _ops(self):  # type: ignore[no-untyped-def]
        return self.configs.ops(self.test) if self.configs else None

    @cached_property
    def _modules(self):  # type: ignore[no-untyped-def]
        return self.configs.modules(self.test) if self.configs else None

    def keeps_op(self, name: str, variant: str = "", aten: str = "", composite: bool = False) -> bool:
        """Whether an OpInfo stays in the test's list.

        A config that lists its ops decides alone. Without such a list the sheet does, unless the op is ``composite``:
        then it runs as other operators (``softmax`` as ``_softmax``), and only running it shows whether all are there.
        """
        edits = self._ops
        if edits is not None:
            if not edits.keeps(name, variant):
                return False
            if edits.supported is not None or edits.include:
                return True
        return self.capability is None or composite or self.capability.supports_op(aten or name)

    def keeps_module(self, name: str) -> bool:
        return self._modules is None or self._modules.keeps(name)

    def injected_ops(self) -> frozenset[str]:
        """Ops that the config adds to this test's list."""
        return self._ops.include if self._ops is not None else frozenset()

    def dtypes(self, allowed: Iterable[str], op: str | None = None, op_variant: str = "") -> frozenset[str]:
        """``(sheet ∩ config ∩ allowed) + include - exclude``."""
        kept = frozenset(allowed)
        if self.capability is not None:
            kept = frozenset(name for name in kept if self.capability.supports_dtype(name))
        if self.configs is None:
            return kept
        return self.configs.dtypes(self.test, op, op_variant).apply(kept)

    def keeps_dtype(self, name: str, op: str | None = None, op_variant: str = "") -> bool:
        return name in self.dtypes((name,), op, op_variant)

    def included_dtypes(self, op: str | None = None, op_variant: str = "") -> frozenset[str]:
        """Dtypes that the config adds beyond what op and decorator allow."""
        return self.dtypes((), op, op_variant)

    def record(
        self, variant: str, op: str | None = None, op_variant: str = "", dtypes: tuple[str, ...] = ()
    ) -> VariantRecord:
        """How one variant is to be run. A variant of several dtypes is matched by none of them alone."""
        dtype = dtypes[0] if len(dtypes) == 1 else None
        shown = ",".join(dtypes) or None
        if self.configs is None:
            return VariantRecord(self.test, variant, op, op_variant, shown)
        rule = self.configs.rule(self.test, op, op_variant, dtype)
        return VariantRecord(
            self.test,
            variant,
            op,
            op_variant,
            shown,
            rule.mode,
            rule.listed,
            rule.reason,
            rule.issue,
            rule.source,
            tuple(self.configs.cpu_move(self.test)),
            self.configs.no_grad(self.test),
        )

    def precision(self, record: VariantRecord) -> Precision | None:
        if self.configs is None:
            return None
        return self.configs.precision(self.test, record.op, record.dtype, record.op_variant)


@dataclass(slots=True)
class Reuse:
    """Everything one process applies: the configs, the sheet, the tree the files come from, and what came of it."""

    root: Path
    configs: ReuseConfigs | None
    capability: Capability | None
    registry: Registry

    def file_of(self, path: str | None) -> str:
        """A source file as upstream names it (``test/test_x.py``); outside the tree its absolute path."""
        if not path:
            return "?"
        resolved = Path(path).resolve()
        try:
            return resolved.relative_to(self.root.resolve()).as_posix()
        except ValueError:
            return resolved.as_posix()

    def policy(self, test: TestId) -> TestPolicy:
        return TestPolicy(test, self.configs, self.capability)


_active: list[Reuse] = []


def activate(reuse: Reuse) -> None:
    """Makes ``reuse`` govern every test class generated from now on in this process."""
    _active[:] = [reuse]


def active() -> Reuse | None:
    """What governs this process; None (upstream's behaviour, unfiltered) before ``activate``."""
    return _active[0] if _active else None
