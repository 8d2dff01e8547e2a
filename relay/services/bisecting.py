"""Which commit of trunk broke a test that fails without the change too: searched for over what is stored, and by runs
of trunk where that does not decide."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import structlog
from sqlalchemy import Connection, Engine, Row, select

from relay.errors import UpstreamGone
from relay.mirror.command import git
from relay.mirror.diff import changed_paths
from relay.mirror.git import Mirror
from relay.services import trunk_runs
from relay.services.upstream import mirror
from relay.settings import Settings
from relay.store import bisections, trunk
from relay.store.db import reading
from relay.store.schema import dispatch, shard
from selector.model import TestId, Verdict
from selector.verify.bisect import Found, Lost, Probe, State, step

log = structlog.get_logger(__name__)
RUNS = 16
"""Runs that one search may ask for."""
OPEN = 4
"""Searches that one verdict may begin."""
BACK = 1000
"""Commits of trunk that a search looks back over."""
PATHS = 30
"""Files that a commit may change for each of them to say which test it broke."""


def begin(conn: Connection, run: Row[Any], verdict: Verdict, rows: Sequence[Row[Any]], now: float) -> int:
    """Begins searches for what the verdict shows to fail on the base as well, one for each cause. -> how many."""
    wanted = {g.keys[0] for g in verdict.groups if g.kind == "pre-existing"}
    tests = {c.key: c.test for c in verdict.causes}
    begun = 0
    for key in sorted(wanted & set(tests))[:OPEN]:
        spec = next((r.spec for r in rows if r.side == "head" and str(tests[key]) in r.spec["tests"]), None)
        if spec is None or not run.compare_sha or not _is_trunk(conn, run.id):
            continue
        begun += bisections.open_(
            conn,
            device=run.device,
            test=str(tests[key]),
            variant=key.rpartition("::")[2],
            bad_sha=run.compare_sha,
            spec={**spec, "tests": [str(tests[key])], "variants": [key]},
            now=now,
        )
    return begun


def go_on(engine: Engine, settings: Settings, now: float | None = None) -> int:
    """Takes every open search one step on: an answer, or one more run. -> how many were answered. Doing it again while
    a run is under way asks for nothing."""
    now = time.time() if now is None else now
    answered = 0
    with reading(engine) as conn:
        searches = bisections.going_on(conn)
    for one in searches:
        commits = first_parents(mirror(settings), one.bad_sha)
        with reading(engine) as conn:
            told = step(commits, _known(conn, one, commits))
        paths = _paths(mirror(settings), told) if isinstance(told, Found) else None
        with engine.begin() as conn:
            if isinstance(told, Probe) and one.runs < RUNS:
                specs = [{**one.spec, "est_seconds": 2.0}]
                if trunk_runs.request(conn, settings, specs, told.commit, now, why=f"search {one.id}"):
                    bisections.count_run(conn, one.id)
                continue
            answered += 1
            _answer(conn, one, told, paths, now)
    return answered


def _paths(repo: Mirror, told: Found) -> tuple[str, ...] | None:
    """What the commit that broke it changed; None where others may have, where it is so much that a path tells
    nothing, or where upstream cannot be asked (the search has its answer without it)."""
    if told.between:
        return None
    try:
        paths = changed_paths(repo.path, told.last_good, told.first_bad)
    except UpstreamGone as exc:
        log.warning("paths of a first bad commit not known", commit=told.first_bad, error=str(exc))
        return None
    return paths if len(paths) <= PATHS else None


def _answer(
    conn: Connection, one: Row[Any], told: Found | Probe | Lost, paths: tuple[str, ...] | None, now: float
) -> None:
    if isinstance(told, Found):
        between = f"; {len(told.between)} commits before it say nothing" if told.between else ""
        reason = f"passes on {told.last_good[:10]}, fails on {told.first_bad[:10]}{between}"
        first, last = told.first_bad, told.last_good
        bisections.close(
            conn, one.id, state="found", reason=reason, now=now, first_bad=first, last_good=last, paths=paths
        )
        log.info("first bad commit found", test=one.test, commit=first, runs=one.runs)
        return
    reason = told.reason if isinstance(told, Lost) else f"not found in {RUNS} runs"
    bisections.close(conn, one.id, state="given-up", reason=reason, now=now, first_bad=None, last_good=None)


def first_parents(repo: Mirror, sha: str) -> list[str]:
    """Trunk's commits up to ``sha``, oldest first, at most BACK; as far back as the mirror has them."""
    said = git(repo.path, "rev-list", "--first-parent", f"--max-count={BACK}", sha, timeout_s=60.0)
    if said.code:
        raise UpstreamGone(f"the history of {sha} cannot be read: {said.problem}")
    return said.out.decode("ascii").split()[::-1]


def _known(conn: Connection, one: Row[Any], commits: Sequence[str]) -> dict[str, State]:
    """What is stored of the variant on these commits. A commit that was run and gave no result says nothing."""
    key = f"{one.test.rpartition('::')[0]}::{one.variant}"
    known: dict[str, State] = {one.bad_sha: "bad"}
    among = set(commits)
    seen = trunk.samples(conn, one.device, {key: TestId.parse(one.test)})
    for sample in seen.get(key, ()):
        if sample.commit in among:
            known[sample.commit] = "bad" if sample.failed else known.get(sample.commit, "good")
    asked = conn.execute(
        select(dispatch.c.compare_sha, shard.c.spec)
        .join(shard, shard.c.dispatch_id == dispatch.c.id)
        .where(
            dispatch.c.event == trunk.TRUNK_EVENT,
            dispatch.c.device == one.device,
            dispatch.c.state.in_(("completed", "failed")),
        )
    )
    for row in asked:
        if row.compare_sha in among and one.test in row.spec["tests"]:
            known.setdefault(row.compare_sha, "broken")
    return known


def _is_trunk(conn: Connection, dispatch_id: str) -> bool:
    found = conn.execute(select(dispatch.c.id).where(dispatch.c.id == dispatch_id, trunk.is_trunk()))
    return found.first() is not None
