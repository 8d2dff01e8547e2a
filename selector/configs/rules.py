from __future__ import annotations

from selector.configs.model import ConfigProblem, DtypeEdits, OpEdits, Precision, VariantRule
from selector.model import TestId


class ReuseConfigs:
    """All loaded configs. Paths are relative to the upstream root (``test/test_view_ops.py``)."""

    warnings: tuple[ConfigProblem, ...]

    def covers(self, path: str) -> bool: raise NotImplementedError
    def rule(self, test: TestId, op: str | None = None, op_variant: str = "", dtype: str | None = None) -> VariantRule: raise NotImplementedError
    def dtypes(self, test: TestId, op: str | None = None, op_variant: str = "") -> DtypeEdits: raise NotImplementedError
    def ops(self, test: TestId) -> OpEdits: raise NotImplementedError
    def modules(self, test: TestId) -> OpEdits: raise NotImplementedError
    def precision(self, test: TestId, op: str | None, dtype: str | None, op_variant: str = "") -> Precision | None: raise NotImplementedError
    def cpu_move(self, test: TestId) -> tuple[str, ...]: raise NotImplementedError
    def no_grad(self, test: TestId) -> bool: raise NotImplementedError
