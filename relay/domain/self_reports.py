"""Self-reports: a downstream's scheduled CI tells what it found at a commit of upstream, without a dispatch. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from relay.domain.fields import is_repo, is_sha
from relay.errors import BadRequest

SELF_REPORTS = ("nightly", "periodic")
EVENT = "nightly"
"""The word of the allowlist's ``events`` that lets a downstream send them, of either kind."""
HINT = "docs/callback.md shows a self-report"


@dataclass(frozen=True, slots=True)
class SelfReport:
    """A report of kind ``event`` about the commit ``sha`` of the repository ``upstream``, which is still to be looked
    at: anybody can write forty hex digits."""

    event: str
    sha: str
    upstream: str

    @property
    def delivery_id(self) -> str:
        """Where it is kept among the deliveries: one a kind and commit."""
        return f"{self.event}:{self.sha}"


def check(event: str, delivery_id: str, payload: Mapping[str, Any], status: str) -> SelfReport:
    """What a self-report is about; whatever else its payload holds (a pull request's number) is not looked at. Raises
    BadRequest naming the field."""
    if not is_sha(delivery_id):
        raise _wrong("delivery_id", f"a {event} report names the commit that was tested, 40 lower-case hex digits")
    repository = payload.get("repository")
    name = repository.get("full_name") if isinstance(repository, dict) else None
    if not isinstance(name, str) or not is_repo(name):
        raise _wrong("payload.repository.full_name", f"a {event} report names the upstream repository, owner/name")
    if payload.get("head_sha") not in (None, delivery_id):
        raise _wrong("payload.head_sha", "must be the same commit as delivery_id")
    if status != "completed":
        raise _wrong("workflow.status", f"a {event} report is sent when the job is completed")
    return SelfReport(event, delivery_id, name)


def _wrong(path: str, problem: str) -> BadRequest:
    return BadRequest(f"{path}: {problem}", HINT, path=path)
