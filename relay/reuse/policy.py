"""Which ops and dtypes of a test stay, and how a variant is moded: the configs and the device's sheet put together.

Pure: works on names. ``relay.reuse.parametrize`` takes the names from the OpInfo and dtype *objects* upstream's
generators hand over; nothing takes a generated method name apart.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from relay.reuse.registry import Registry, VariantRecord
from selector.configs import Capability, Precision, ReuseConfigs, TestFacts, given, op_names
from selector.configs.chain import Chain
from selector.configs.tree import Item
from selector.model import TestId


@dataclass(frozen=True)
class TestPolicy(Chain):
    """What may be generated for one test, and how each variant is to be run."""

    __test__ = False  # pytest: not a test class

    facts: TestFacts | None = None

    def record(
        self, variant: str, op: str | None = None, op_variant: str = "", dtypes: tuple[str, ...] = (), bare: str = ""
    ) -> VariantRecord:
        """How one variant is to be run. A variant of several dtypes is matched by none of them alone.

        ``bare`` is the generated name without device and dtype: a config may name one parametrisation by it.
        """
        dtype = dtypes[0] if len(dtypes) == 1 else None
        shown = ",".join(dtypes) or None
        if self.configs is None:
            return VariantRecord(self.test, variant, op, op_variant, shown)
        if bare in self._named_variants:
            of_variant = replace(self, test=TestId(self.test.file, self.test.cls, bare))
            return replace(of_variant.record(variant, op, op_variant, dtypes), test=self.test, named=bare)
        rule = self.configs.rule(self.test, op, op_variant, dtype, self.facts)
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
            self._cpu_move,
            self._no_grad,
            rule.tags,
        )

    @cached_property
    def bypasses(self) -> frozenset[str]:
        """Device types whose restrictions do not keep the device out of this test."""
        return self.configs.bypasses(self.test) if self.configs is not None else frozenset()

    @cached_property
    def has_selectors(self) -> bool:
        return self.configs is not None and any(
            m.entry.selectors.include or m.entry.selectors.exclude for m in self.configs.matches(self.test)
        )

    @cached_property
    def has_inputs(self) -> bool:
        """Whether a config gives inputs to the test's ops or modules."""
        return self.configs is not None and given.has_inputs(self.configs, self.test)

    @cached_property
    def _names_with_inputs(self) -> frozenset[str] | None:
        return given.names_with_inputs(self.configs, self.test) if self.configs is not None else frozenset()

    def op_inputs(self, op: str, variant: str) -> given.Given | None:
        names = self._names_with_inputs
        if self.configs is None or (names is not None and names.isdisjoint(op_names(op, variant))):
            return None
        return given.op_inputs(self.configs, self.test, op, variant)

    def module_inputs(self, name: str) -> given.Given | None:
        return given.module_inputs(self.configs, self.test, name) if self.configs is not None else None

    @cached_property
    def modules_by_path(self) -> tuple[Item, ...]:
        """Modules that a config adds by where the class lies."""
        return given.modules_by_path(self.configs, self.test) if self.configs is not None else ()

    @cached_property
    def tagged(self) -> bool:
        return self.configs is not None and any(m.entry.tags for m in self.configs.matches(self.test))

    @cached_property
    def _named_variants(self) -> frozenset[str]:
        return self.configs.named_variants(self.test) if self.configs is not None else frozenset()

    @cached_property
    def names_variants(self) -> bool:
        """Whether a config may name variants of the test by their own names."""
        return bool(self._named_variants)

    @cached_property
    def _cpu_move(self) -> tuple[str, ...]:
        return self.configs.cpu_move(self.test) if self.configs is not None else ()

    @cached_property
    def _no_grad(self) -> bool:
        return self.configs is not None and self.configs.no_grad(self.test)

    def precision(self, record: VariantRecord) -> Precision | None:
        if self.configs is None:
            return None
        test = TestId(self.test.file, self.test.cls, record.named) if record.named else self.test
        return self.configs.precision(test, record.op, record.dtype, record.op_variant)


@dataclass(slots=True)
class Reuse:
    """Everything one process applies: the configs, the sheet, the tree the files come from, and what came of it."""

    root: Path
    configs: ReuseConfigs | None
    capability: Capability | None
    registry: Registry
    input_files: Path | None = None
    """the configs' folder, for tensors of ``init: file``; None: the configs came without it"""

    def file_of(self, path: str | None) -> str:
        """A source file as upstream names it (``test/test_x.py``); outside the tree its absolute path."""
        if not path:
            return "?"
        resolved = Path(path).resolve()
        try:
            return resolved.relative_to(self.root.resolve()).as_posix()
        except ValueError:
            return resolved.as_posix()

    def file_of_module(self, name: str) -> str:
        """The source file of an imported module, as ``file_of`` names it."""
        return self.file_of(getattr(sys.modules.get(name), "__file__", None))

    def policy(self, test: TestId, facts: TestFacts | None = None) -> TestPolicy:
        return TestPolicy(test, self.configs, self.capability, facts=facts)


_active: list[Reuse] = []


def activate(reuse: Reuse) -> None:
    """Makes ``reuse`` govern every test class generated from now on in this process.

    Imports upstream's test library (with ``TORCH_TEST_DEVICES`` and the device as they are now).
    """
    from relay.reuse import restrictions

    _active[:] = [reuse]
    restrictions.install()


def active() -> Reuse | None:
    """What governs this process; None (upstream's behaviour, unfiltered) before ``activate``."""
    return _active[0] if _active else None
