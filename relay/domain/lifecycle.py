"""The life of a job, from reports that come in any order, any number of times. Pure.

A job is one (dispatch, workflow, job, run id, attempt). Its state is a join: the earliest start and the worst end that
were reported. So every order and every duplication of the same reports ends in the same state, nothing goes backwards,
and an end without a start is a state like any other ("start unknown").
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class JobStatus(StrEnum):
    QUEUED = "queued"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"


SEVERITY = {
    word: rank
    for rank, word in enumerate(
        ("skipped", "success", "neutral", "cancelled", "action_required", "timed_out", "failure")
    )
}
"""The conclusions GitHub takes from an App, mildest first. Two matrix legs that report under one name must not hide a
failure, so the worse one stands, whichever came last."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Test counts as the downstream gave them; ``total`` None: not said."""

    passed: int
    failed: int
    skipped: int
    total: int | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """An end: its conclusion, when we heard of it (seconds since the epoch), and what came with it.

    ``presumed``: nobody reported it, a deadline passed. Whatever is reported later takes its place, mild or not.
    """

    conclusion: str
    at: float
    counts: Counts | None = None
    artifact_url: str | None = None
    presumed: bool = False

    def _rank(self) -> tuple[bool, int, float, str, str]:
        # the last two only make the order total: equal reports at one instant must not depend on who came first
        return not self.presumed, SEVERITY[self.conclusion], -self.at, repr(self.counts), self.artifact_url or ""

    def worse_than(self, other: Completion) -> bool:
        return self._rank() > other._rank()


@dataclass(frozen=True, slots=True)
class JobReport:
    """What one report says. ``at`` is when we received it: the downstream's clock decides nothing.

    ``completion`` is there exactly when ``status`` is completed (else ValueError).
    """

    status: JobStatus
    at: float
    completion: Completion | None = None

    def __post_init__(self) -> None:
        if (self.status is JobStatus.COMPLETED) != (self.completion is not None):
            raise ValueError(f"a {self.status} report {'needs a' if self.completion is None else 'has no'} completion")


@dataclass(frozen=True, slots=True)
class JobState:
    """``started_at``: the earliest report of a start, None while none came."""

    started_at: float | None = None
    completion: Completion | None = None

    @property
    def status(self) -> JobStatus:
        if self.completion is not None:
            return JobStatus.COMPLETED
        return JobStatus.QUEUED if self.started_at is None else JobStatus.IN_PROGRESS

    @property
    def conclusion(self) -> str | None:
        return self.completion.conclusion if self.completion else None

    @property
    def start_known(self) -> bool:
        """False where the end is the first thing we heard: then no run time can be told."""
        if self.completion is None:
            return self.started_at is not None
        return self.started_at is not None and self.started_at <= self.completion.at


@dataclass(frozen=True, slots=True)
class Transition:
    """The state after a report. ``code`` is stable; ``publish``: people outside have something new to see."""

    state: JobState
    code: str
    publish: bool


def advance(current: JobState | None, report: JobReport) -> Transition:
    """The state after ``report``. None: nothing was ever heard of this job."""
    before = current or JobState()
    started = before.started_at
    if report.status is JobStatus.IN_PROGRESS:
        started = report.at if started is None else min(started, report.at)
    completion = before.completion
    replaced = ""
    if report.completion is not None and (completion is None or report.completion.worse_than(completion)):
        if completion is not None and completion.presumed and not report.completion.presumed:
            replaced = "late-end"
        elif completion is not None and completion.conclusion != report.completion.conclusion:
            replaced = "conclusion-worse"
        completion = report.completion
    after = JobState(started, completion)
    return Transition(after, *_name(current, before, after, report, replaced))


def _name(
    current: JobState | None, before: JobState, after: JobState, report: JobReport, replaced: str
) -> tuple[str, bool]:
    if replaced:
        return replaced, True
    if current is not None and before.status is after.status:
        late = report.status is JobStatus.IN_PROGRESS and before.started_at is None
        return ("late-start", False) if late else ("duplicate", False)
    if after.status is JobStatus.COMPLETED:
        return ("completed" if after.start_known else "completed-start-unknown"), True
    return ("started" if after.status is JobStatus.IN_PROGRESS else "queued"), True


# ------------------------------------------------------------------------------------------------ several jobs together


@dataclass(frozen=True, slots=True)
class JobView:
    """One job of a dispatch. ``id`` sorts in the order in which jobs were first heard of."""

    id: str
    workflow: str
    name: str
    run_id: str
    attempt: int
    status: str
    conclusion: str | None

    def _age(self) -> tuple[int, int, str]:
        # GitHub's run ids grow; other providers' ids do not sort, there the order of arrival has to do
        number = int(self.run_id) if self.run_id.isascii() and self.run_id.isdigit() else 0
        return number, self.attempt, self.id


@dataclass(frozen=True, slots=True)
class Overall:
    """A dispatch seen through its jobs: ``state`` is running or completed."""

    state: str
    conclusion: str | None
    code: str
    summary: str


def newest(jobs: Iterable[JobView]) -> list[JobView]:
    """The newest attempt of the newest run of every (workflow, job): older ones no longer count."""
    best: dict[tuple[str, str], JobView] = {}
    for job in jobs:
        key = (job.workflow, job.name)
        if key not in best or job._age() > best[key]._age():
            best[key] = job
    return [best[key] for key in sorted(best)]


def overall(jobs: Iterable[JobView]) -> Overall:
    """What the newest attempts say together: the worst conclusion, once all of them are completed."""
    current = newest(jobs)
    if not current:
        raise ValueError("a dispatch without jobs has no overall state")
    open_jobs = [job for job in current if job.status != JobStatus.COMPLETED]
    total = f"{len(current)} job" + ("s" if len(current) > 1 else "")
    if open_jobs:
        return Overall("running", None, "jobs-running", f"{len(open_jobs)} of {total} not completed yet")
    worst = max(current, key=lambda job: SEVERITY[job.conclusion or "failure"])
    conclusion = worst.conclusion or "failure"
    if SEVERITY[conclusion] <= SEVERITY["success"]:
        return Overall("completed", conclusion, "jobs-passed", f"{total} completed, {conclusion}")
    bad = [job for job in current if job.conclusion == conclusion]
    names = ", ".join(f"{job.workflow} / {job.name}" for job in bad[:3])
    more = f" and {len(bad) - 3} more" if len(bad) > 3 else ""
    return Overall("completed", conclusion, "jobs-not-passed", f"{len(bad)} of {total} {conclusion}: {names}{more}")
