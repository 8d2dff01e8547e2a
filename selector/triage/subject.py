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
from selector.triage.engagement import Uses, uses_device
from selector.triage.environment import NOTHING, Environment, Lifts
from selector.triage.environment import UNKNOWN as UNKNOWN_ENVIRONMENT


class Ruling(StrEnum):
    """What triage says of a test; ASK goes to an agent and comes back as one of the others."""

    RELEVANT = "relevant"
    IRRELEVANT = "irrelevant"
    ASK = "ask"


class Category(StrEnum):
    """What a test is about, seen from a device. Where no rule says it, ``categories.topic_of`` does."""

    OP_CORRECTNESS = "op-correctness"
    VIEWS = "views-and-layout"
    AUTOGRAD = "autograd"
    MODULES = "modules"
    COMPILE = "compile"
    CREATION = "creation"
    SERIALIZATION = "serialization"
    INDEXING = "indexing"
    RANDOM = "random"
    MEMORY = "memory"
    PROFILER = "profiler"
    DISTRIBUTED = "distributed"
    QUANTISED = "quantised"
    SPARSE = "sparse"
    COMPLEX = "complex"
    CUDA_ONLY = "cuda-only"
    CPU_ONLY = "cpu-only"
    OTHER_BACKEND = "other-backend"
    FRONT_END = "front-end-only"
    INFRASTRUCTURE = "infrastructure"


@dataclass(frozen=True, slots=True)
class Opinion:
    """One rule's (or agent's) answer. A sure IRRELEVANT drops the test unless it was seen to engage the device.

    ``category``: None where the rule does not go by what the test is about.
    """

    ruling: Ruling
    category: Category | None
    code: str
    reason: str
    evidence: tuple[Evidence, ...] = ()
    confidence: float = 1.0
    by: str = "rules"


@dataclass(frozen=True)
class Subject:
    """One impacted test, with everything known about it without running it.

    ``lifts``: limits of upstream's that a config lifts for it;
    ``environment``: what is known of the machine that runs the tests; ``uses``: reads what its functions do with their
    device, None where there is no source to read.
    """

    impact: Impact
    cls: ClassRecord
    test: MethodRecord
    inventory: Inventory
    capability: Capability
    index: OpIndex
    lifts: Lifts = NOTHING
    environment: Environment = UNKNOWN_ENVIRONMENT
    uses: Uses | None = None

    @property
    def id(self) -> TestId:
        return self.impact.test

    @property
    def device_names(self) -> frozenset[str]:
        """The words by which upstream's decorators and limits can mean this device."""
        return frozenset({self.capability.device, "privateuse1"})

    @property
    def let_in(self) -> frozenset[str]:
        """The device types whose limits let this device in."""
        return self.device_names | self.lifts.devices

    @cached_property
    def uses_device(self) -> bool | None:
        """False: the device that the test is given never comes to run anything. None: not known."""
        return None if self.uses is None else uses_device(self.id, self.inventory, self.uses)

    @cached_property
    def decorators(self) -> tuple[Decorator, ...]:
        """Those of the method, of its class and of the classes above it in the file."""
        reach = self.inventory.reach(self.id.file)
        classes = self.inventory.files[self.id.file].classes
        names = reach.chain(self.cls.name)
        above = self.cls.decorators if not names else ()  # a class that code makes: its record has what it took over
        return self.test.decorators + above + tuple(d for name in names for d in classes[name].decorators)

    @cached_property
    def words(self) -> frozenset[str]:
        """Every name and attribute that the test reaches in its file, and where its method is written."""
        return self.inventory.words(self.id)

    @cached_property
    def device_literals(self) -> frozenset[str]:
        """Devices that strings in reach of the test name (``cuda``, ``cpu``)."""
        return self.inventory.device_literals(self.id)

    @cached_property
    def features(self) -> frozenset[str]:
        from selector.triage.features import features_of

        return features_of(self)

    def place(self, kind: str, detail: str, line: int | None = None) -> Evidence:
        """A fact with its place in the test's file."""
        symbol = f"{self.cls.name}.{self.test.name}"
        return Evidence(kind, detail, self.id.file, line if line is not None else self.test.line, symbol)
