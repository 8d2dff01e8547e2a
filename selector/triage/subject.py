"""What triage looks at, and what a rule answers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from selector.configs import Capability
from selector.discover import Impact, Inventory
from selector.discover.opindex import OpIndex
from selector.discover.records import ClassRecord, Decorator, MethodRecord
from selector.model import Evidence, TestId


class Ruling(StrEnum):
    """What triage says of a test; ASK goes to an agent and comes back as one of the others."""

    RELEVANT = "relevant"
    IRRELEVANT = "irrelevant"
    ASK = "ask"


class Category(StrEnum):
    """What a test is about, seen from a device."""

    DEVICE_GENERIC = "device-generic"
    CUDA_ONLY = "cuda-only"
    CPU_ONLY = "cpu-only"
    OTHER_BACKEND = "other-backend"
    DISTRIBUTED = "distributed"
    NO_DEVICE = "no-device"
    NEVER_RUN = "never-run"
    UNSUPPORTED = "unsupported"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class Opinion:
    """One rule's (or agent's) answer. A sure IRRELEVANT drops the test unless it was seen to engage the device."""

    ruling: Ruling
    category: Category
    code: str
    reason: str
    evidence: tuple[Evidence, ...] = ()
    confidence: float = 1.0
    by: str = "rules"


@dataclass(frozen=True)
class Subject:
    """One impacted test, with everything known about it without running it."""

    impact: Impact
    cls: ClassRecord
    test: MethodRecord
    inventory: Inventory
    capability: Capability
    index: OpIndex

    @property
    def id(self) -> TestId:
        return self.impact.test

    @property
    def device_names(self) -> frozenset[str]:
        """The words by which upstream's decorators and limits can mean this device."""
        return frozenset({self.capability.device, "privateuse1"})

    @cached_property
    def decorators(self) -> tuple[Decorator, ...]:
        """Those of the method, of its class and of the classes above it in the file."""
        reach = self.inventory.reach(self.id.file)
        classes = self.inventory.files[self.id.file].classes
        return self.test.decorators + tuple(d for name in reach.chain(self.cls.name) for d in classes[name].decorators)

    @cached_property
    def words(self) -> frozenset[str]:
        """Every name and attribute that the test reaches in its file."""
        reach = self.inventory.reach(self.id.file)
        return reach.names(reach.test(self.cls.name, self.test.name))

    @cached_property
    def device_literals(self) -> frozenset[str]:
        """Devices that strings in reach of the test name (``cuda``, ``cpu``)."""
        reach = self.inventory.reach(self.id.file)
        symbols = self.inventory.files[self.id.file].symbols
        return frozenset(w for key in reach.test(self.cls.name, self.test.name) for w in symbols[key].literals)

    @cached_property
    def features(self) -> frozenset[str]:
        from selector.triage.features import features_of

        return features_of(self)

    def place(self, kind: str, detail: str, line: int | None = None) -> Evidence:
        """A fact with its place in the test's file."""
        symbol = f"{self.cls.name}.{self.test.name}"
        return Evidence(kind, detail, self.id.file, line if line is not None else self.test.line, symbol)
