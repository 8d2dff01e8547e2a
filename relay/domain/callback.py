"""The body of a downstream's callback, validated. Pure: a field that is wrong is named by its path.

Only what is listed here is kept. The echoed webhook (``payload``) must be an object and is otherwise not looked at:
commit, pull request and labels come from our own record of the dispatch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal
from urllib.parse import unquote, urlsplit

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

from relay.domain.allowlist_entry import Entry
from relay.domain.lifecycle import SEVERITY, Completion, Counts, JobReport, JobStatus
from relay.domain.providers import Provider
from relay.domain.refs import fits
from relay.domain.self_reports import SELF_REPORTS, SelfReport, check
from relay.domain.triage_verdict import judge
from relay.errors import BadRequest, Forbidden

MAX_COUNT = 1_000_000_000
MAX_ATTEMPT = 100_000


def _id(value: object) -> object:
    # ids arrive as strings or as numbers; both are the same id
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _blank_is_none(value: object) -> object:
    return None if isinstance(value, str) and not value.strip() else value


def _nothing_is_one(value: object) -> object:
    return 1 if value is None or value == "" else value


def _nothing_is_empty(value: object) -> object:
    return {} if value is None else value


def _no_control(value: str) -> str:
    if any(ord(c) < 32 or ord(c) == 127 or 0xD800 <= ord(c) <= 0xDFFF for c in value):
        raise ValueError("control characters are not allowed")
    return value


def _https(value: str) -> str:
    try:
        parts = urlsplit(value)
        fine = parts.scheme == "https" and bool(parts.hostname) and not parts.username and not parts.password
    except ValueError:
        fine = False
    if not fine or re.search(r"[\s<>\"'`\\]", value):
        raise ValueError("must be an https:// URL without credentials")
    return value


Id = Annotated[str, StringConstraints(min_length=1, max_length=64), AfterValidator(_no_control), BeforeValidator(_id)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=300), AfterValidator(_no_control)]
Url = Annotated[str, StringConstraints(max_length=2048), AfterValidator(_no_control), AfterValidator(_https)]
Time = Annotated[str, StringConstraints(max_length=64), AfterValidator(_no_control)]
Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]


class TestResults(BaseModel):
    __test__ = False  # pytest: not a test class

    model_config = ConfigDict(extra="ignore")
    passed: Count
    failed: Count
    skipped: Count
    total: Count | None = None


class Workflow(BaseModel):
    """The report proper. Blank strings count as not given where a field may be left out."""

    model_config = ConfigDict(extra="ignore")
    schema_version: Annotated[str, StringConstraints(max_length=16), BeforeValidator(_id)] = "1"
    status: Literal["in_progress", "completed"]
    conclusion: Annotated[str | None, BeforeValidator(_blank_is_none)] = None
    name: Name
    url: Annotated[Url | None, BeforeValidator(_blank_is_none)] = None
    run_id: Id
    run_attempt: Annotated[int, Field(ge=1, le=MAX_ATTEMPT), BeforeValidator(_nothing_is_one)] = 1
    job_name: Annotated[Name | None, BeforeValidator(_blank_is_none)] = None
    check_run_id: Annotated[Id | None, BeforeValidator(_blank_is_none)] = None
    started_at: Annotated[Time | None, BeforeValidator(_blank_is_none)] = None
    completed_at: Annotated[Time | None, BeforeValidator(_blank_is_none)] = None
    test_results: TestResults | None = None
    artifact_url: Annotated[Url | None, BeforeValidator(_blank_is_none)] = None
    triage_verdict: Any = None

    @model_validator(mode="after")
    def _conclusion_fits(self) -> Workflow:
        if self.conclusion is not None and self.conclusion not in SEVERITY:
            raise ValueError(f"conclusion: {self.conclusion[:50]!r} is none of {', '.join(sorted(SEVERITY))}")
        if self.status == "completed" and self.conclusion is None:
            raise ValueError(f"conclusion: a completed job needs one of {', '.join(sorted(SEVERITY))}")
        return self


class _Body(BaseModel):
    model_config = ConfigDict(extra="ignore")
    event_type: Annotated[str, StringConstraints(max_length=64), AfterValidator(_no_control)] = "pull_request"
    delivery_id: Annotated[str, StringConstraints(min_length=1, max_length=64), AfterValidator(_no_control)]
    payload: Annotated[dict[str, Any], BeforeValidator(_nothing_is_empty)] = Field(default_factory=dict)
    workflow: Workflow


@dataclass(frozen=True, slots=True)
class Callback:
    """A report that was understood. ``job_name`` falls back to the workflow's name where none was given.

    ``self_report``: it is about a commit, not about a dispatch. ``triage``: the downstream's own judgement, validated;
    ``triage_problem`` says why one was dropped.
    """

    event_type: str
    delivery_id: str
    workflow: Workflow
    self_report: SelfReport | None = None
    triage: dict[str, Any] | None = None
    triage_problem: str | None = None

    @property
    def job_name(self) -> str:
        return self.workflow.job_name or self.workflow.name

    def report(self, at: float) -> JobReport:
        """What it says to the lifecycle; ``at`` is when it was received, in seconds since the epoch."""
        flow = self.workflow
        if flow.status != "completed":
            return JobReport(JobStatus.IN_PROGRESS, at)
        results = flow.test_results
        counts = Counts(results.passed, results.failed, results.skipped, results.total) if results else None
        return JobReport(JobStatus.COMPLETED, at, Completion(flow.conclusion or "", at, counts, flow.artifact_url))

    def wire(self, url: str) -> dict[str, Any]:
        """The validated ``workflow`` in the shape of the wire, for the dashboard; ``url`` is the run's checked URL."""
        flow = self.workflow
        out: dict[str, Any] = {
            "schema_version": flow.schema_version,
            "status": flow.status,
            "conclusion": flow.conclusion if flow.status == "completed" else None,
            "name": flow.name,
            "url": url,
            "run_id": flow.run_id,
            "run_attempt": str(flow.run_attempt),
            "job_name": self.job_name,
            "check_run_id": flow.check_run_id,
            "started_at": flow.started_at,
            "completed_at": flow.completed_at,
        }
        if flow.test_results is not None:
            out["test_results"] = flow.test_results.model_dump(exclude_none=True)
        if flow.artifact_url is not None:
            out["artifact_url"] = flow.artifact_url
        if self.triage is not None:
            out["triage_verdict"] = self.triage
        return out


def parse(raw: bytes) -> Callback:
    """Reads a callback's body. Raises BadRequest naming the path of the first wrong field."""
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError) as exc:
        raise BadRequest(f"body: not valid JSON: {exc}", "send the report as one JSON object") from exc
    if not isinstance(value, dict):
        raise BadRequest("body: must be a JSON object", "docs/callback.md shows a complete report")
    try:
        body = _Body.model_validate(value)
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False, include_context=False)[0]
        path = ".".join(str(part) for part in first["loc"])
        problem = first["msg"].removeprefix("Value error, ")
        if path == "workflow" and problem.startswith("conclusion: "):
            path, problem = "workflow.conclusion", problem.removeprefix("conclusion: ")
        raise BadRequest(f"{path}: {problem}", "docs/callback.md shows a complete report", path=path) from exc
    about = None
    if body.event_type in SELF_REPORTS:
        about = check(body.event_type, body.delivery_id, body.payload, body.workflow.status)
    verdict, dropped = judge(body.workflow.triage_verdict)
    return Callback(body.event_type, body.delivery_id, body.workflow, about, verdict, dropped)


def json_schema() -> dict[str, Any]:
    """The JSON schema of a callback's body, whole in itself, for the API's description."""
    schema = _Body.model_json_schema()
    parts = schema.pop("$defs", {})

    def whole(node: Any) -> Any:
        if isinstance(node, list):
            return [whole(item) for item in node]
        if not isinstance(node, dict):
            return node
        if "$ref" in node:
            return whole(parts[node["$ref"].rpartition("/")[2]])
        return {key: whole(value) for key, value in node.items()}

    return dict(whole(schema))


def bind(callback: Callback, provider: Provider, claims: Mapping[str, Any]) -> None:
    """Refuses a report about another run than the token's: a workflow speaks for itself alone.

    A provider that names no run in its tokens (docs/providers.md) is not bound. Raises Forbidden.
    """
    said = {
        provider.run_id: ("run_id", callback.workflow.run_id),
        provider.run_attempt: ("run_attempt", str(callback.workflow.run_attempt)),
    }
    for claim, (field, value) in said.items():
        if claim is not None and claim in claims and str(claims[claim]) != value:
            raise Forbidden(
                f"workflow.{field}: the report says {value}, the token was issued to {claims[claim]}",
                "report from the run itself, with a token of that run",
                path=f"workflow.{field}",
            )


def permit(entry: Entry, provider: Provider, claims: Mapping[str, Any]) -> None:
    """Refuses a run of a ref or a workflow that the allowlist does not let report. Raises Forbidden."""
    for what, globs, claim in (
        ("refs", entry.refs, provider.ref),
        ("workflows", entry.workflows, provider.workflow),
    ):
        if globs is None:
            continue
        value = claims.get(claim) if claim is not None else None
        if not isinstance(value, str) or not value:
            raise Forbidden(
                f"the allowlist says which {what} of {entry.repo} may report, and tokens of {provider.name} say none",
                f"take `{what}` off its entry, or report from a CI whose tokens have it",
            )
        names = [_ref(value)] if what == "refs" else _workflows(value, _own(provider, claims))
        if not any(fits(name, globs) for name in names):
            raise Forbidden(
                f"the {what} of {entry.repo} that may report are {', '.join(globs)}; the token's is {names[0][:200]}",
                f"report from one of these, or have `{what}` of the entry changed",
            )


def _ref(value: str) -> str:
    return value if value.startswith("refs/") else f"refs/heads/{value}"


def _own(provider: Provider, claims: Mapping[str, Any]) -> str:
    """What the token's own repository is called before the path of a workflow, as far as the token says."""
    if provider.repository is not None:
        return str(claims.get(provider.repository, ""))
    host = urlsplit(str(claims.get("iss", ""))).netloc
    return f"{host}/{claims.get('project_path', '')}"


def _workflows(value: str, own: str) -> list[str]:
    """What a glob may mean of ``owner/repo/path@ref`` (GitLab: ``host/group/project//path@ref``): its whole name, and
    its path alone where it is the repository's own, for a path says nothing about who wrote what lies there."""
    whole = value.partition("@")[0]
    home, _, path = whole.partition("//")
    if not path:
        parts = whole.split("/")
        home, path = "/".join(parts[:2]), "/".join(parts[2:])
    return [path, whole] if path and home.casefold() == own.casefold() else [whole]


def run_url(callback: Callback, repository: str, provider: Provider, claims: Mapping[str, Any]) -> str | None:
    """The URL of the run that we show: the reported one where it lies below the page that belongs to the token, else
    GitHub's page of the run, or None. A provider without such a page is believed (https)."""
    reported = callback.workflow.url
    own = provider.page_of(claims, repository)
    if reported is not None and (not provider.page or (own and _below(reported, own))):
        return reported
    run_id = callback.workflow.run_id
    if provider.name != "github" or not (run_id.isascii() and run_id.isdigit()):
        return None
    return f"{own}actions/runs/{run_id}" if own else None


def _below(url: str, own: str) -> bool:
    # dots would lead out again, written plainly or escaped, and some servers read a backslash as a slash
    here, there = urlsplit(url), urlsplit(own)
    if ".." in unquote(unquote(here.path)) or "\\" in url:
        return False
    return here.netloc.casefold() == there.netloc.casefold() and here.path.casefold().startswith(there.path.casefold())
