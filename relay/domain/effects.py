"""Which outside effects a job's state asks for, and their bodies. Pure.

What a downstream echoes about the pull request is never used: commit, number and labels come from our own record of the
dispatch. The wires are those of the public relay (docs/callback.md, docs/outbox.md).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from relay.domain.events import LABEL_PREFIX
from relay.domain.self_reports import SELF_REPORTS

OUTPUT_LIMIT = 65_535
NAME_LIMIT = 255
HUD_STATUSES = ("in_progress", "completed")


@dataclass(frozen=True, slots=True)
class DispatchFacts:
    """Columns of the dispatch that effects need; times in seconds since the epoch."""

    id: str
    delivery_id: str
    downstream: str
    level: str
    device: str | None
    event: str
    action: str | None
    upstream: str
    pr_number: int | None
    pr_title: str | None
    author: str | None
    base_sha: str | None
    head_sha: str
    base_ref: str | None
    head_repo: str | None
    labels: Sequence[str]

    @property
    def self_reported(self) -> bool:
        """Whether it is no dispatch of ours, but what a downstream tells about a commit by itself."""
        return self.event in SELF_REPORTS


@dataclass(frozen=True, slots=True)
class JobFacts:
    """Columns of the job that effects need; times in seconds since the epoch."""

    id: str
    workflow: str
    name: str
    run_id: str
    attempt: int
    status: str
    conclusion: str | None
    url: str | None
    reported_check_run_id: str | None
    queued_at: float | None
    started_at: float | None
    completed_at: float | None
    start_known: bool
    results: Mapping[str, int] | None
    artifact_url: str | None


def wanted(dispatch: DispatchFacts, status: str) -> tuple[str, ...]:
    """The kinds of effects, in order, for a job that has come to ``status``.

    L1 gets none; L2 the dashboard; L3 also a check run when the pull request carries its device's label; L4 always.
    The dashboard knows no queued jobs.
    """
    if dispatch.level not in ("L1", "L2", "L3", "L4"):
        raise ValueError(f"dispatch {dispatch.id}: no such level: {dispatch.level!r}")
    if dispatch.level == "L1":
        return ()
    if dispatch.self_reported:
        return ("hud",)  # of a nightly nobody's pull request hears
    kinds = ["hud"] if status in HUD_STATUSES else []
    if dispatch.level == "L4" or (dispatch.level == "L3" and labelled(dispatch.device, dispatch.labels)):
        kinds.append("check_run")
    return tuple(kinds)


def labelled(device: str | None, labels: Sequence[str]) -> bool:
    """Whether a pull request with these labels shows the results of ``device``."""
    return device is not None and LABEL_PREFIX + device in labels


def check_run_name(dispatch: DispatchFacts, job: JobFacts) -> str:
    """GitHub cuts a long name, and two that begin alike would be one check: we cut it, and keep them apart."""
    name = f"crcr/{dispatch.downstream}/{job.workflow}/{job.name}"
    if len(name) <= NAME_LIMIT:
        return name
    apart = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:10]
    return f"{name[: NAME_LIMIT - 12]}… {apart}"


def external_id(dispatch: DispatchFacts, job: JobFacts) -> str:
    return f"{job.run_id}:{dispatch.pr_number}" if dispatch.pr_number is not None else job.run_id


def check_run(
    dispatch: DispatchFacts, job: JobFacts, *, details_url: str, title: str | None, summary: str, text: str | None
) -> dict[str, Any]:
    """The body of a check run, for creating it as well as for updating it. ``summary`` and ``text`` are Markdown whose
    foreign parts are escaped already."""
    body: dict[str, Any] = {
        "name": check_run_name(dispatch, job),
        "head_sha": dispatch.head_sha,
        "status": job.status,
        "details_url": details_url,
        "external_id": external_id(dispatch, job),
        "output": {"title": title or _title(job), "summary": summary[:OUTPUT_LIMIT]},
    }
    if text is not None:
        body["output"]["text"] = text[:OUTPUT_LIMIT]
    if job.started_at is not None and job.start_known:
        body["started_at"] = iso(job.started_at)
    if job.status == "completed":
        body["conclusion"] = job.conclusion
        if job.completed_at is not None:
            body["completed_at"] = iso(job.completed_at)
    return body


def hud_row(dispatch: DispatchFacts, job: JobFacts, reported: Mapping[str, Any] | None) -> dict[str, Any]:
    """The dashboard's body. ``reported`` is the validated ``workflow`` of the downstream's own report, if there is one;
    the queue time is told with the start, the run time with the end.

    The check run id is the first one heard of: the dashboard's key contains it, and a start and an end that name
    different ones would be two rows, one of which runs for ever.
    """
    workflow = dict(reported) if reported is not None else _workflow(job)
    workflow["status"] = job.status
    workflow["conclusion"] = job.conclusion
    workflow["check_run_id"] = job.reported_check_run_id or job.id
    if not dispatch.self_reported:
        workflow.pop("completed_at" if job.status == "in_progress" else "started_at", None)
    return {
        "trusted": {
            "ci_metrics": {"queue_time": queue_time(job), "execution_time": execution_time(job)},
            "verified_repo": dispatch.downstream,
            "downstream_repo_level": dispatch.level,
        },
        "untrusted": {
            "callback_payload": {
                "event_type": dispatch.event,
                "delivery_id": dispatch.head_sha if dispatch.self_reported else dispatch.delivery_id,
                "payload": upstream_payload(dispatch),
                "workflow": workflow,
            }
        },
    }


def upstream_payload(dispatch: DispatchFacts) -> dict[str, Any]:
    """The part of the webhook that the dashboard reads, from our record."""
    repository = {"full_name": dispatch.upstream}
    if dispatch.self_reported:
        return {"head_sha": dispatch.head_sha, "repository": repository}
    if dispatch.pr_number is None:
        return {"after": dispatch.head_sha, "ref": dispatch.base_ref, "repository": repository}
    return {
        "action": dispatch.action,
        "number": dispatch.pr_number,
        "pull_request": {
            "number": dispatch.pr_number,
            "title": dispatch.pr_title,
            "user": {"login": dispatch.author},
            "head": {"sha": dispatch.head_sha, "repo": {"full_name": dispatch.head_repo}},
            "base": {"sha": dispatch.base_sha, "ref": dispatch.base_ref},
        },
        "repository": repository,
    }


def queue_time(job: JobFacts) -> float | None:
    """Seconds from the dispatch to the start, on a job in progress."""
    if job.status != "in_progress" or job.started_at is None or job.queued_at is None:
        return None
    return round(max(0.0, job.started_at - job.queued_at), 3)


def execution_time(job: JobFacts) -> float | None:
    """Seconds from the start to the end, on a completed job whose start is known."""
    if job.status != "completed" or job.completed_at is None or job.started_at is None or not job.start_known:
        return None
    return round(max(0.0, job.completed_at - job.started_at), 3)


def iso(at: float) -> str:
    """``2026-01-31T12:00:00Z``"""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _workflow(job: JobFacts) -> dict[str, Any]:
    workflow: dict[str, Any] = {
        "schema_version": "1",
        "name": job.workflow,
        "url": job.url,
        "run_id": job.run_id,
        "run_attempt": str(job.attempt),
        "job_name": job.name,
        "started_at": iso(job.started_at) if job.started_at is not None else None,
        "completed_at": iso(job.completed_at) if job.completed_at is not None else None,
    }
    if job.status == "completed" and job.results is not None:
        workflow["test_results"] = dict(job.results)
    if job.artifact_url is not None:
        workflow["artifact_url"] = job.artifact_url
    return workflow


def _title(job: JobFacts) -> str:
    if job.status == "completed":
        return (job.conclusion or "completed").replace("_", " ").capitalize()
    return "In progress" if job.status == "in_progress" else "Queued"
