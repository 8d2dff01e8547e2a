"""What a loaded reuse configuration says, as plain values.

Dtypes are torch's names without ``torch.`` (``float16``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from selector.model import Mode

Level = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class ConfigSource:
    """One YAML file: its name (relative, used in messages and by ``extends``) and its text."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Place:
    """Where something was written, 1-based; printed as ``file.yaml:12``. ``path`` is the way of keys to it."""

    source: str
    line: int
    column: int = 1
    path: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.source}:{self.line}"


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """One finding about a config, at a 1-based line and column. ``code`` is stable and listed in docs/errors.md;
    ``path`` is the way of keys to it (``test_suite_config.files[0].tests[2].mode``)."""

    source: str
    line: int
    column: int
    level: Level
    code: str
    message: str
    hint: str = ""
    path: str = ""

    def __str__(self) -> str:
        hint = f" ({self.hint})" if self.hint else ""
        path = f"{self.path}: " if self.path else ""
        return f"{self.source}:{self.line}:{self.column}: {self.level}: {path}{self.message}{hint} [{self.code}]"


@dataclass(frozen=True, slots=True)
class VariantRule:
    """How a variant is to be run. ``listed``: an entry names it; ``source``: ``file.yaml:12``, the governing line."""

    mode: Mode
    listed: bool
    reason: str = ""
    issue: str = ""
    source: str = ""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Precision:
    """Tolerances of a comparison; None where the config does not set one."""

    atol: float | None = None
    rtol: float | None = None


@dataclass(frozen=True, slots=True)
class DtypeEdits:
    """The dtype filter of one test; ``supported`` None means that nothing is filtered."""

    supported: frozenset[str] | None = None
    include: frozenset[str] = frozenset()
    exclude: frozenset[str] = frozenset()

    def apply(self, allowed: Iterable[str]) -> frozenset[str]:
        """``(allowed ∩ supported) + include - exclude``; pass what op and decorator allow."""
        kept = frozenset(allowed)
        if self.supported is not None:
            kept &= self.supported
        return (kept | self.include) - self.exclude


@dataclass(frozen=True, slots=True)
class OpEdits:
    """The op (or module) filter of one test; ``supported`` None means that nothing is filtered."""

    supported: frozenset[str] | None = None
    include: frozenset[str] = frozenset()
    exclude: frozenset[str] = frozenset()

    def keeps(self, name: str, variant: str = "") -> bool:
        """Whether the OpInfo ``name`` with ``variant_test_name`` ``variant`` stays in the test's list."""
        names = op_names(name, variant)
        if not names.isdisjoint(self.exclude):
            return False
        return self.supported is None or not (names.isdisjoint(self.supported) and names.isdisjoint(self.include))


@lru_cache(maxsize=8192)
def op_names(name: str, variant: str = "") -> frozenset[str]:
    """The spellings by which a config may name an OpInfo: ``nn.functional.gelu``, ``nn_functional_gelu``.

    A bare name covers all variants of the op; a name with the variant covers that one only.
    """
    if not variant and "." not in name:
        return frozenset((name,))
    full = f"{name}.{variant}" if variant else name
    spellings = {name, name.replace(".", "_"), full, full.replace(".", "_")}
    if name.startswith("nn."):
        spellings.add(f"torch.{name}")  # modules are also named by where they lie
    return frozenset(spellings)
