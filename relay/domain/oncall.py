"""The comment by which a downstream's oncalls hear that a pull request breaks it: one a failure streak. Pure.

A streak is a pull request's commits in a row that fail at one downstream. Its comment is made with the first and
changed with the others, so nobody is called twice for one thing; it ends with a commit that passes, and the next
failure begins a new one. Who is called comes from the allowlist alone: whatever the result says, it mentions nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from relay.domain.check_output import inert
from relay.domain.conclusions import TABLE, of_run

FAILING = ("failure", "timed_out")
LIMIT = 20_000
JOBS_SHOWN = 15


@dataclass(frozen=True, slots=True)
class End:
    """How a dispatch ended, as far as a comment tells it. ``jobs``: (name, conclusion, https link or None) of the
    newest attempts that did not pass; ``page``: our page about it."""

    dispatch_id: str
    downstream: str
    level: str
    head_sha: str
    conclusion: str | None
    code: str | None
    summary: str
    oncalls: Sequence[str]
    page: str
    jobs: Sequence[tuple[str, str, str | None]] = ()


@dataclass(frozen=True, slots=True)
class Streak:
    """What is stored of a streak: ``failures`` are commits, ``dispatch_id`` is the newest that counted."""

    id: str
    failures: int
    dispatch_id: str


@dataclass(frozen=True, slots=True)
class Step:
    """``none``: nothing to say. Else the streak's ``failures`` from now on, and whether it is over."""

    what: Literal["none", "begin", "go-on", "end"]
    failures: int = 0


def step(streak: Streak | None, end: End) -> Step:
    """What an end means for the streak that is open (None: there is none). Neutral ends prove nothing either way."""
    if end.conclusion in FAILING:
        if streak is None:
            return Step("begin", 1)
        return Step("go-on", streak.failures + (streak.dispatch_id != end.dispatch_id))
    if end.conclusion == "success" and streak is not None:
        return Step("end", streak.failures)
    return Step("none")


def marker(streak_id: str) -> str:
    """The invisible line by which a comment is found again after a send in doubt."""
    return f"<!-- crcr-relay oncall {streak_id} -->"


def comment(streak_id: str, end: End, now: Step) -> str:
    """The comment's Markdown."""
    name = f"**{inert(end.downstream)}** ({end.level})"
    commit = f"`{end.head_sha[:12]}`"
    lines = [marker(streak_id)]
    if now.what == "end":
        failed = f"after {now.failures} commit{'s' if now.failures > 1 else ''} that did not"
        lines.append(f"{name} passes again at {commit}, {failed}. [The run]({end.page})")
        return "\n\n".join(lines)
    said = TABLE[of_run(end.code, end.conclusion)].words
    more = f", for {now.failures} commits in a row" if now.failures > 1 else ""
    lines.append(f"{name}: {said}, at {commit}{more}. [The run]({end.page})")
    if end.summary:
        lines.append(inert(end.summary, 1000))
    shown = [_job(*job) for job in end.jobs[:JOBS_SHOWN]]
    if len(end.jobs) > JOBS_SHOWN:
        shown.append(f"* and {len(end.jobs) - JOBS_SHOWN} more")
    if shown:
        lines.append("\n".join(shown))
    if end.oncalls:
        lines.append("cc " + " ".join(f"@{login}" for login in end.oncalls))
    return "\n\n".join(lines)[:LIMIT]


def _job(name: str, conclusion: str, url: str | None) -> str:
    shown = inert(name)
    return f"* {f'[{shown}]({_target(url)})' if url else shown}: {inert(conclusion)}"


def _target(url: str) -> str:
    # a bracket would end the link early
    return url.replace("(", "%28").replace(")", "%29").replace(" ", "%20").replace("<", "%3C").replace(">", "%3E")
