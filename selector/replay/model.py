"""The words of a replay: faults, kinds, the pool's variants, and what became of one under a fault."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass, field

from selector.model import TestId

PYTHON_KINDS = (
    "argument-drop",
    "argument-swap",
    "arithmetic-swap",
    "boolean-swap",
    "comparison-shift",
    "condition-negate",
    "constant-shift",
    "entry-flag",
    "return-none",
    "statement-drop",
    "unary-drop",
)
NATIVE_KINDS = ("native-first", "native-half", "native-offset", "native-scale", "native-strided", "native-zero")
SPLIT_SEED = "replay kinds, 2026-11-30"


def _drawn(kinds: tuple[str, ...], count: int) -> frozenset[str]:
    return frozenset(random.Random(f"{SPLIT_SEED} {kinds[0]}").sample(kinds, count))


WRITING = _drawn(PYTHON_KINDS, 5) | _drawn(NATIVE_KINDS, 3)
"""Kinds that rules may be written for, and rankers trained on. The others only score; drawn once, by the seed."""


def is_scoring(kind: str) -> bool:
    """Whether nobody may look at this kind while writing rules."""
    return kind not in WRITING


@dataclass(frozen=True, slots=True)
class Edit:
    """Bytes ``start`` to ``end`` of a file become ``text``. The number of lines stays."""

    start: int
    end: int
    text: str

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.text.encode() + source[self.end :]


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. The selector sees the edit of ``path`` alone.

    ``symbol``: the function (qualified) or the entry that holds it; ``line``: 1-based, of the smallest statement around
    the edit; ``op``: of a native fault, the aten operator whose kernel on the device goes wrong, ``effect`` how;
    ``flag``: of an entry's flag, its keyword.
    """

    kind: str
    area: str
    path: str
    symbol: str
    line: int
    edit: Edit
    op: str = ""
    flag: str = ""

    @property
    def id(self) -> str:
        said = f"{self.path}:{self.symbol}:{self.kind}:{self.edit.start}:{self.edit.text}"
        return f"{self.area}-{self.kind}-{hashlib.blake2b(said.encode(), digest_size=4).hexdigest()}"

    @property
    def native(self) -> bool:
        return bool(self.op)

    @property
    def scoring(self) -> bool:
        return is_scoring(self.kind)


@dataclass(frozen=True, slots=True)
class PoolVariant:
    """A variant that passes without a fault. ``seconds``: what it took then; ``share``: the part of its file's variants
    that is in the pool (so it stands for ``1 / share`` of them); ``hits``: faults whose statement it reaches."""

    key: str
    test: TestId
    op: str | None
    seconds: float
    share: float = 1.0
    hits: frozenset[str] = field(default_factory=frozenset)

    @property
    def stands_for(self) -> float:
        """Seconds of the whole suite that this variant stands for."""
        return self.seconds / self.share


KILLED, SURVIVED, UNSTABLE = "killed", "survived", "unstable"
"""What a variant did under a fault: failed, but passes without it; passed; failed, also when run without it."""
