"""Nights of a branch of upstream: which there are, which were missed, and what is told of each to the dashboard."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import structlog
from sqlalchemy import Connection, Engine, Row

from relay.domain.allowlist import Entry
from relay.domain.fields import is_sha
from relay.domain.lifecycle import Completion, Counts, JobReport, JobStatus
from relay.domain.self_reports import EVENT, SelfReport
from relay.errors import RelayError, UpstreamGone
from relay.mirror.command import git
from relay.mirror.git import Mirror
from relay.services import allowlists, reporting, self_reports
from relay.services.upstream import mirror
from relay.settings import Settings
from relay.store import jobs, upgrades
from relay.store.db import reading

log = structlog.get_logger(__name__)
BACK = 14
"""Nights that are caught up after the relay was away; of older ones the newest stands for all."""
COMMITS = 5_000
JOB = "nightly-upgrade"
_RELEASE = re.compile(r"nightly release \(([0-9a-f]{40})\)")
"""how upstream's branch of nightly releases names the commit of trunk that each is made of"""


@dataclass(frozen=True, slots=True)
class Night:
    """The newest commit of a day (UTC, ``2026-11-29``)."""

    day: str
    sha: str


def look(engine: Engine, settings: Settings, memory: Mapping[str, Any], now: float) -> dict[str, Any]:
    """Fetches the branch and asks for every night that nobody asked for yet, oldest first. A day counts once it is
    over. -> what is remembered: the branch's tip, and how many were asked for."""
    repo, ref, device = mirror(settings), settings.nightly_ref, settings.device
    tip = repo.tip(ref)
    today = datetime.fromtimestamp(now, UTC).date().isoformat()
    with reading(engine) as conn:
        known = upgrades.nights(conn, device, ref, limit=1)
    after = known[0].night if known else ""
    new = [night for night in nights_of(repo, tip, COMMITS) if after < night.day < today]
    if not known:
        new = new[-1:]  # a beginning: there is nothing to compare older ones with
    asked = 0
    with engine.begin() as conn:
        for night in new[-BACK:]:
            made = upgrades.ask(conn, kind="nightly", device=device, ref=ref, night=night.day, new=night.sha, now=now)
            asked += made is not None
    if asked:
        log.info("nights asked for", ref=ref, nights=asked, tip=tip)
    return {"tip": tip, "asked": asked, "nights": len(new)}


def nights_of(repo: Mirror, tip: str, limit: int) -> list[Night]:
    """The nights up to ``tip``, oldest first: of each day the newest commit that trunk itself went through."""
    said = git(repo.path, "log", "--first-parent", f"--max-count={limit}", "--format=%H %ct %s", tip, timeout_s=60.0)
    if said.code:
        raise UpstreamGone(f"the history of {tip} cannot be read: {said.problem}")
    newest: dict[str, str] = {}
    for line in said.out.decode("utf-8", "replace").splitlines():
        sha, seconds, subject = (*line.split(" ", 2), "")[:3]
        day = datetime.fromtimestamp(int(seconds), UTC).date().isoformat()
        released = _RELEASE.search(subject)
        newest.setdefault(day, released[1] if released else sha)
    return [Night(day, sha) for day, sha in sorted(newest.items())]


def commit(repo: Mirror, name: str) -> str:
    """The commit that a name of upstream is: an id, a tag or a branch; fetched. Raises UpstreamGone, SettingsError."""
    if is_sha(name):
        repo.ensure(name)
        return name
    return repo.tip(name)


def listener(engine: Engine, settings: Settings, device: str, now: float) -> Entry | None:
    """The downstream of the allowlist that has this device and reports nights. Call it outside of a transaction."""
    try:
        listed = allowlists.current(engine, settings, now)
    except RelayError as exc:
        log.warning("nights are told nobody", device=device, error=str(exc))
        return None
    return next((one for one in listed.entries if one.device == device and EVENT in one.events), None)


def tell(
    conn: Connection,
    settings: Settings,
    entry: Entry,
    row: Row[Any],
    numbers: Mapping[str, int],
    good: bool | None,
    now: float,
) -> bool:
    """The night as a self-report of the device's downstream: a run, a job and a dashboard row, as its own CI would
    send. False: it was told before."""
    about = SelfReport("nightly", row.new_sha, settings.upstream_repo)
    run = self_reports.run_of(conn, settings, entry, about, now)
    failed = numbers["regression"]
    passed = numbers["passes"] + numbers["fixed"]
    completion = Completion(
        "neutral" if good is None else "success" if good else "failure",
        now,
        Counts(passed, failed, sum(numbers.values()) - passed - failed, sum(numbers.values())),
    )
    url = f"{settings.url}/upgrade/{row.old_sha}..{row.new_sha}"
    key = jobs.JobKey(JOB, row.device, row.id, 1)
    job, change = jobs.record(
        conn, run, key, JobReport(JobStatus.COMPLETED, now, completion), url=url, check_run_id=None
    )
    if change.publish:
        reporting.report_job(conn, settings, run, job, now, details_url=url)
    return change.publish
