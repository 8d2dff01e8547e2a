"""What an agent may say, as types: tests and categories that are known, short reasons, and a quote for each claim.

A sheet that does not fit its type is no answer. One that does is still only a proposal: ``selector.agents.check``
looks at every line of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, create_model

from selector.triage.subject import Category

Reason = Annotated[str, Field(max_length=400, description="one sentence")]
MAX_LINES = 60


class Ground(StrEnum):
    """Why a test may be dropped. Each can be checked against the parsed source and the sheet, and is."""

    USES_NO_DEVICE = "uses-no-device"
    LACKS_FEATURE = "lacks-feature"
    OTHER_DEVICE_ONLY = "other-device-only"
    NO_TEST_BY_ITSELF = "no-test-by-itself"


class CauseKind(StrEnum):
    """What a failure comes from, as a log shows it."""

    CHANGE = "change"
    TEST = "test"
    DEVICE_LIMIT = "device-limit"
    INFRASTRUCTURE = "infrastructure"
    FLAKY = "flaky"
    UNKNOWN = "unknown"


class ConfigMode(StrEnum):
    """The modes that an agent may propose: those that take a failing test out of the verdict's way."""

    XFAIL = "xfail"
    SKIP = "skip"


class Sheet(BaseModel):
    """What every sheet has in common: nothing that is not asked for."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Quote(Sheet):
    """Text as it stands in a file (or in the log of a failure), word for word, on one line."""

    path: str = Field(max_length=400, description="the file, or the name of the log")
    text: str = Field(min_length=4, max_length=300, description="copied word for word from one line")


class TriageLine(Sheet):
    test: str
    keep: bool
    ground: Ground | None = Field(None, description="needed to drop; no other reason counts")
    category: Category | None = None
    reason: Reason
    quote: Quote


class CriticLine(Sheet):
    test: str
    confirm: bool = Field(description="true only if the source shows that the ground holds")
    reason: Reason
    quote: Quote


class SuspectLine(Sheet):
    test: str
    reason: Reason
    quote: Quote


class ConfigLine(Sheet):
    test: str
    mode: ConfigMode
    reason: Reason
    quote: Quote


class CauseLine(Sheet):
    failure: str
    cause: CauseKind
    reason: Reason
    quote: Quote


class TriageSheet(Sheet):
    lines: list[TriageLine] = Field(max_length=MAX_LINES)


class CriticSheet(Sheet):
    lines: list[CriticLine] = Field(max_length=MAX_LINES)


class SuspectSheet(Sheet):
    lines: list[SuspectLine] = Field(max_length=MAX_LINES)


class ConfigSheet(Sheet):
    lines: list[ConfigLine] = Field(max_length=MAX_LINES)


class CauseSheet(Sheet):
    lines: list[CauseLine] = Field(max_length=MAX_LINES)


AnySheet = TypeVar("AnySheet", bound=Sheet)


def known_only(sheet: type[AnySheet], line: type[Sheet], name: str, known: Sequence[str]) -> type[AnySheet]:
    """The sheet whose JSON schema lists the ids that it may name. Only the schema: an id that is not listed is refused
    line by line, with its reason, and does not cost the other lines."""
    told: Any = Field(json_schema_extra={"enum": list(known)})
    make: Any = create_model  # its overloads know no names that are only known here
    narrowed: Any = make(line.__name__, __base__=line, **{name: (str, told)})
    made: type[AnySheet] = make(sheet.__name__, __base__=sheet, lines=(list[narrowed], Field(max_length=MAX_LINES)))
    return made
