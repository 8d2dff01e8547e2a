"""The format of a config and of a sheet, as models. ``relay config schema`` is made from them."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic import ValidationInfo as Info

from selector.configs.blocks import Block, Count, Given, NotNegative, Raw, TextValue, lenient, one_or_many, wrong
from selector.configs.capability import CapabilityBlock
from selector.configs.inputs import Inputs, InputSets
from selector.configs.names import Name, Path
from selector.configs.nodes import nearest
from selector.configs.patterns import DTYPES
from selector.configs.values import Map, Text, as_written
from selector.model import Mode

_ISSUE = re.compile(r"https?://\S+|[A-Za-z0-9][\w.-]*/[\w.-]+#\d+|#\d+")
_UNTIL = re.compile(r"\d{4}-\d{2}-\d{2}|v?\d+\.\d+(?:\.\d+)?")
_DAY_FIRST = re.compile(r"(?P<day>\d{1,2})\.(?P<month>\d{1,2})\.(?P<year>\d{4})")

ModeWord = Annotated[Mode, Field(strict=False)]
DeviceType = Literal["cpu", "cuda", "meta", "mps", "xpu", "hpu", "xla", "privateuse1", "spyre", "openreg"]
Architecture = Literal["x86_64", "aarch64", "s390x", "ppc64le", "ppc64", "arm64", "riscv64"]
"""as Python's ``platform.machine()`` says it"""


def _dtype(word: str) -> str:
    if word not in DTYPES:
        bare = word.removeprefix("torch.")
        hint = f"write {bare!r}" if bare in DTYPES else nearest(bare, DTYPES)
        raise wrong("config-dtype", f"{word!r} is not a dtype of this format", hint)
    return word


def _named(value: Any) -> Any:
    """A name that stands alone as an item with that name."""
    if not isinstance(value, Text):
        return value
    item = Map(value.place)
    item["name"] = value
    return item


def _issue(value: Any, info: Info) -> Any:
    text = as_written(value)
    if isinstance(text, str) and text.strip() and not _ISSUE.fullmatch(text.strip()):
        lenient(info, value, "config-issue", f"{text!r} is not an issue", "give a URL or owner/repo#123")
    return text


def _until(value: Any, info: Info) -> Any:
    text = as_written(value)
    day = _DAY_FIRST.fullmatch(text.strip()) if isinstance(text, str) else None
    if day is not None:
        # it would be read as a version of which no torch is ever
        hint = f"write {day['year']}-{int(day['month']):02}-{int(day['day']):02}"
        lenient(info, value, "config-until", f"{text!r} is not how a date is written here", hint)
    elif isinstance(text, str) and text.strip() and not _UNTIL.fullmatch(text.strip()):
        hint = "give a date (2026-12-31) or a version (2.14)"
        lenient(info, value, "config-until", f"{text!r} is neither a date nor a version", hint)
    return text


class Explained(Block):
    """What can say why it is so."""

    reason: Annotated[Raw, Field(description="Why, in a sentence; reaches every report.")] = ""
    issue: Annotated[Raw, Field(description="A URL or owner/repo#12."), BeforeValidator(_issue)] = ""
    evidence: Annotated[Raw, Field(description="The run that showed it.")] = ""
    until: Annotated[Raw, Field(description="A date (2026-12-31) or a version (2.14)."), BeforeValidator(_until)] = ""


class Item(Explained):
    """Something that is named: an op, a module, a function."""

    name: TextValue
    description: Raw = ""


class PrecisionBlock(Block):
    """Tolerances of comparisons."""

    atol: Given[NotNegative] = None
    rtol: Given[NotNegative] = None


class Dtype(Item):
    """A dtype, by torch's name without ``torch.``."""

    name: Annotated[TextValue, AfterValidator(_dtype), Field(json_schema_extra={"enum": sorted(DTYPES)})]
    precision: Given[PrecisionBlock] = None
    force_xfail: bool = False


class Op(Item):
    """An op of the database, with the calls that a model makes of it."""

    misplaced: ClassVar[dict[str, tuple[str, str]]] = {
        # dropped without a word by the older tool, 738 times in real configs
        "kwargs": ("sample_inputs_func", "move it into sample_inputs_func, beside args")
    }
    tags: list[TextValue] = Field(default_factory=list)
    sample_inputs_func: InputSets = Field(default_factory=list)


class Module(Item):
    """A module of the database, or one that ``module_path`` names."""

    misplaced: ClassVar[dict[str, tuple[str, str]]] = Op.misplaced
    module_path: Given[TextValue] = None
    apply_device_layout: bool = False
    constructor_inputs: Given[Inputs] = None
    forward_inputs: InputSets = Field(default_factory=list)
    sample_inputs_func: InputSets = Field(default_factory=list)


class SupportedBlock(Item):
    """An op or module that the device has."""

    force_xfail: bool = False
    dtypes: list[Dtype] = Field(default_factory=list)
    constructor_inputs: Given[Inputs] = None
    forward_inputs: InputSets = Field(default_factory=list)


Supported = Annotated[SupportedBlock, BeforeValidator(_named, json_schema_input_type=str | SupportedBlock)]


class RoughOp(Item):
    """The tolerances of an op's dtypes; says nothing of which ops or dtypes are tested."""

    dtypes: list[Dtype]


class OpHalves(Block):
    include: list[Op] = Field(default_factory=list)
    exclude: list[Item] = Field(default_factory=list)


class DtypeHalves(Block):
    include: list[Dtype] = Field(default_factory=list)
    exclude: list[Dtype] = Field(default_factory=list)


class ModuleHalves(Block):
    include: list[Module] = Field(default_factory=list)
    exclude: list[Item] = Field(default_factory=list)


class Functions(Block):
    """``cpu_move``: TestCase methods whose tensor arguments go to the CPU first."""

    cpu_move: list[Item] = Field(default_factory=list)


class EditsBlock(Block):
    """What is different for the tests of one entry."""

    ops: OpHalves = Field(default_factory=OpHalves)
    dtypes: DtypeHalves = Field(default_factory=DtypeHalves)
    modules: ModuleHalves = Field(default_factory=ModuleHalves)
    functions: Functions = Field(default_factory=Functions)
    inputs: InputSets = Field(default_factory=list)


class SelectorBlock(Block):
    """All that it names must hold."""

    has_ops: Given[bool] = None
    ops_in_supported: Given[bool] = None
    markers: list[TextValue] = Field(default_factory=list)
    name_patterns: list[TextValue] = Field(default_factory=list)
    module_patterns: list[TextValue] = Field(default_factory=list)
    decorators: list[TextValue] = Field(default_factory=list)

    @model_validator(mode="after")
    def _by_something(self) -> SelectorBlock:
        if not self.model_fields_set:
            hint = f"name one of {', '.join(type(self).model_fields)}"
            raise wrong("config-value", "a selector that selects by nothing", hint)
        return self


class SelectorHalves(Block):
    """Each list is of alternatives."""

    include: list[SelectorBlock] = Field(default_factory=list)
    exclude: list[SelectorBlock] = Field(default_factory=list)


class Test(Explained):
    """An entry: what holds for the tests that it names."""

    __test__ = False

    names: Annotated[list[Name], BeforeValidator(one_or_many, json_schema_input_type=Name | list[Name])]
    mode: ModeWord = Mode.MANDATORY_SUCCESS
    tags: list[TextValue] = Field(default_factory=list)
    labels: list[TextValue] = Field(default_factory=list)
    no_grad: bool = False
    edits: EditsBlock = Field(default_factory=EditsBlock)
    selectors: SelectorHalves = Field(default_factory=SelectorHalves)
    bypass_device_restrictions: list[DeviceType] = Field(default_factory=list)
    platform: Annotated[
        list[Architecture],
        BeforeValidator(one_or_many, json_schema_input_type=Architecture | list[Architecture]),
        Field(description="The entry is about machines of these architectures alone."),
    ] = Field(default_factory=list)


class File(Explained):
    """The tests of a file, or of the files that a glob matches."""

    path: Path
    unlisted_test_mode: ModeWord = Mode.SKIP
    tests: list[Test] = Field(default_factory=list)
    labels: list[TextValue] = Field(default_factory=list)
    allow_empty: bool = False
    bypass_device_restrictions: list[DeviceType] = Field(default_factory=list)


class InputConfig(Block):
    seed: Given[Count] = None


class GlobalBlock(Block):
    """What the device has, for all files of the config."""

    supported_dtypes: list[Dtype] = Field(default_factory=list)
    supported_ops: Given[list[Supported]] = None
    supported_modules: Given[list[Supported]] = None
    op_precision: list[RoughOp] = Field(default_factory=list)
    input_config: InputConfig = Field(default_factory=InputConfig)
    devices: list[DeviceType] = Field(default_factory=list)


Extends = Annotated[
    list[TextValue],
    BeforeValidator(one_or_many, json_schema_input_type=str | list[str]),
    Field(description="Sheets, relative to this file."),
]


class SuiteBlock(Block):
    """One config."""

    files: list[File]
    labels: list[TextValue] = Field(default_factory=list)
    global_: GlobalBlock = Field(default_factory=GlobalBlock, alias="global")
    extends: Extends = Field(default_factory=list)
    allow_empty: bool = False


class ConfigFile(Block):
    """Reuse config: how upstream's tests are run on a device."""

    test_suite_config: SuiteBlock


class SheetFile(Block):
    """A sheet that configs extend: what the device is (``capability``), and a ``global`` for all of them."""

    capability: Given[CapabilityBlock] = None
    global_: GlobalBlock = Field(default_factory=GlobalBlock, alias="global")
    extends: Extends = Field(default_factory=list)
