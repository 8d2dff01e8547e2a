"""What became of every generated variant: a record a (generated class, method), and a note a test that has none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from selector.model import Mode, TestId


@dataclass(frozen=True, slots=True)
class VariantRecord:
    """One generated test method, and how the configs want it run.

    ``variant`` is the generated method's name; ``op`` the OpInfo's or ModuleInfo's name, ``op_variant`` its
    ``variant_test_name``; ``dtype`` torch's name without ``torch.`` (several joined by a comma); ``source`` the
    governing config line (``upstream.yaml:12``); ``issue`` what the config points to.
    """

    test: TestId
    variant: str
    op: str | None = None
    op_variant: str = ""
    dtype: str | None = None
    mode: Mode = Mode.MANDATORY_SUCCESS
    listed: bool = False
    reason: str = ""
    issue: str = ""
    source: str = ""
    cpu_move: tuple[str, ...] = ()
    no_grad: bool = False
    tags: tuple[str, ...] = ()
    bypass: bool = False
    named: str = ""
    """the method name by which the governing entry means this one parametrisation, "" when it means the test"""

    @property
    def dtypes(self) -> tuple[str, ...]:
        return tuple(self.dtype.split(",")) if self.dtype else ()

    @property
    def op_name(self) -> str | None:
        """The op with its variant (``div.floor_rounding``), as results name it."""
        return f"{self.op}.{self.op_variant}" if self.op and self.op_variant else self.op

    @property
    def key(self) -> str:
        """``file::Class::variant``."""
        return f"{self.test.file}::{self.test.cls}::{self.variant}"


Resolve = Callable[[str], VariantRecord]


@dataclass(frozen=True, slots=True)
class Emptied:
    """A test of which the capability sheet and the configs left no variant, and why."""

    test: TestId
    reason: str


@dataclass(slots=True)
class Registry:
    """Records by generated class and method. A class is known by its object: names repeat between files.

    A file has tens of thousands of variants, of which a shard runs few: their records are made when they are asked for.
    """

    _records: dict[tuple[type, str], VariantRecord] = field(default_factory=dict)
    _deferred: dict[type, dict[str, Resolve]] = field(default_factory=dict)
    _emptied: dict[TestId, Emptied] = field(default_factory=dict)

    def add(self, cls: type, record: VariantRecord) -> None:
        self._records[cls, record.variant] = record

    def defer(self, cls: type, methods: Iterable[str], resolve: Resolve) -> None:
        """``resolve(method)`` makes the record of a method when it is asked for, once."""
        self._deferred.setdefault(cls, {}).update(dict.fromkeys(methods, resolve))

    def own(self, cls: type, method: str) -> VariantRecord | None:
        """The record of a method of exactly this class."""
        found = self._records.get((cls, method))
        if found is None and (waiting := self._deferred.get(cls)) and (resolve := waiting.pop(method, None)):
            found = resolve(method)
            self._records[cls, method] = found
        return found

    def get(self, cls: type, method: str) -> VariantRecord | None:
        """The record of a method of a generated class, also when a subclass inherits it."""
        for base in cls.__mro__:
            found = self.own(base, method)
            if found is not None:
                return found
        return None

    def note_emptied(self, test: TestId, reason: str) -> None:
        self._emptied.setdefault(test, Emptied(test, reason))

    @property
    def emptied(self) -> tuple[Emptied, ...]:
        return tuple(self._emptied.values())

    def __iter__(self) -> Iterator[VariantRecord]:
        for cls, waiting in list(self._deferred.items()):
            for method in list(waiting):
                self.own(cls, method)
        return iter(self._records.values())

    def __len__(self) -> int:
        return len(self._records) + sum(len(waiting) for waiting in self._deferred.values())
