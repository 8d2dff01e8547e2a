"""A downstream's own judgement of why its job failed (``workflow.triage_verdict``): advice, shown and never acted on.

It is written by whatever tool runs there. What is too long is cut; what is not of the agreed shape drops the whole, for
half of a judgement could mean the opposite. Pure.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

MAX_BYTES = 16 * 1024
MAX_EVIDENCE = 10
HASH = r"^[0-9a-fA-F]{7,40}$"


def _cut(limit: int) -> BeforeValidator:
    """To ``limit`` characters, on one line where it came on several."""

    def cut(value: object) -> object:
        if not isinstance(value, str):
            return value  # pydantic says what is wrong with it
        return " ".join(value.encode("utf-8", "replace").decode("utf-8").replace("\0", " ").split())[:limit]

    return BeforeValidator(cut)


def _address(value: str) -> str:
    try:
        parts = urlsplit(value)
        fine = parts.scheme in ("https", "http") and bool(parts.hostname) and "@" not in parts.netloc
    except ValueError:
        fine = False
    if not fine or any(c.isspace() or c in "<>\"'`\\" for c in value):
        raise ValueError("must be a plain http(s) URL")
    return value


def _first(value: object) -> object:
    return value[:MAX_EVIDENCE] if isinstance(value, list) else value


_NotBlank = Annotated[str, StringConstraints(strict=True, min_length=1)]
Short = Annotated[_NotBlank, _cut(200)]
Reason = Annotated[_NotBlank, _cut(300)]
Long = Annotated[_NotBlank, _cut(1000)]
Commit = Annotated[str, StringConstraints(strict=True, pattern=HASH)]
Address = Annotated[str, StringConstraints(strict=True, max_length=500), AfterValidator(_address)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="ignore")


class _Suspect(_Model):
    pr: Annotated[int, Field(strict=True, gt=0, le=2**31 - 1)] | None = None
    commit: Commit | None = None
    reason: Reason | None = None

    @model_validator(mode="after")
    def _names_one(self) -> _Suspect:
        if self.pr is None and self.commit is None:
            raise ValueError("names neither a pull request nor a commit")
        return self


class _Evidence(_Model):
    job: Short | None = None
    test: Short | None = None
    excerpt: Long | None = None
    log_url: Address | None = None


class _Analyzer(_Model):
    name: Short | None = None
    version: Short | None = None
    model: Short | None = None
    prompt_version: Short | None = None


class _Verdict(_Model):
    schema_version: Annotated[int, Field(ge=1, le=1)]
    category: Literal["upstream", "backend", "infra", "flake", "unknown"]
    confidence: Literal["high", "medium", "low"]
    summary: Long
    suspected_upstream: _Suspect | None = None
    evidence: Annotated[list[_Evidence], BeforeValidator(_first)] | None = None
    reproduced_on_retry: Annotated[bool, Field(strict=True)] | None = None
    analyzer: _Analyzer | None = None
    analyzed_at: Short | None = None

    @model_validator(mode="after")
    def _suspects_fit(self) -> _Verdict:
        if self.suspected_upstream is not None and self.category != "upstream":
            raise ValueError("suspected_upstream belongs to category upstream alone")
        return self


def judge(raw: object) -> tuple[dict[str, Any] | None, str | None]:
    """(the verdict in its agreed shape or None, why one was dropped or None)."""
    if raw is None:
        return None, None
    try:
        size = len(json.dumps(raw).encode("utf-8", "replace"))
    except (ValueError, RecursionError) as exc:
        return None, f"cannot be read: {exc}"
    if size > MAX_BYTES:
        return None, f"{size} bytes, at most {MAX_BYTES} are taken"
    try:
        return _Verdict.model_validate(raw).model_dump(exclude_none=True), None
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False, include_context=False)[0]
        path = ".".join(str(part) for part in first["loc"])
        said = first["msg"].removeprefix("Value error, ")
        return None, f"{path}: {said}" if path else said
