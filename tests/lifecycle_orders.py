"""Seeded orders of the reports of two jobs with two attempts, applied by several writers at once, and what must come of
them. ``python tests/bench/lifecycle_orders.py`` runs hundreds on both databases; the suite runs a sample."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass

from factories import make_delivery, make_run
from sqlalchemy import Engine, select

from relay.domain.lifecycle import SEVERITY, Completion, JobReport, JobStatus, overall
from relay.services import callbacks
from relay.store import jobs
from relay.store.db import reading
from relay.store.schema import dispatch, job

JOBS = ("build", "test")
ATTEMPTS = (1, 2)
WRITERS = 4
RUN = "24033272679"


@dataclass(frozen=True)
class Order:
    """What is reported, in the order in which it is begun to be applied: (job, attempt, start or end)."""

    seed: int
    ends: dict[tuple[str, int], str]
    reports: tuple[tuple[str, int, str], ...]

    @property
    def kept(self) -> set[tuple[str, int, str]]:
        return set(self.reports)


def order_of(seed: int) -> Order:
    """Of every four orders one is without loss or duplicate, one with duplicates, one with losses, one with both."""
    rng = random.Random(seed)
    ends = {(name, attempt): rng.choice(sorted(SEVERITY)) for name in JOBS for attempt in ATTEMPTS}
    reports = [(name, attempt, what) for name in JOBS for attempt in ATTEMPTS for what in ("start", "end")]
    if seed & 2:
        reports = rng.sample(reports, k=rng.randint(4, 7))
    if seed & 1:
        reports += rng.choices(reports, k=rng.randint(1, 6))
    rng.shuffle(reports)
    return Order(seed, ends, tuple(reports))


def play(engine: Engine, order: Order) -> str:
    """Applies an order through WRITERS threads, each taking the next report as soon as it is free, the way the callback
    does it; -> the dispatch's id."""
    run_id = make_run(
        engine,
        delivery_id=make_delivery(engine),
        downstream="Ascend/pytorch",
        downstream_key="ascend/pytorch",
        executor="github",
        state="sent",
    )
    left = list(reversed(order.reports))
    failed: list[BaseException] = []
    gate = threading.Barrier(WRITERS)

    def write() -> None:
        gate.wait()
        while True:
            try:
                name, attempt, what = left.pop()
            except IndexError:
                return
            at = 1000.0 + attempt * 10 + (5 if what == "end" else 0)
            end = Completion(order.ends[name, attempt], at) if what == "end" else None
            report = JobReport(JobStatus.COMPLETED if end else JobStatus.IN_PROGRESS, at, end)
            try:
                with engine.begin() as conn:
                    run = conn.execute(select(dispatch).where(dispatch.c.id == run_id).with_for_update()).one()
                    key = jobs.JobKey("ci", name, RUN, attempt)
                    jobs.record(conn, run, key, report, url=None, check_run_id=None)
                    callbacks._move(conn, run, at)
            except BaseException as exc:
                failed.append(exc)
                raise

    threads = [threading.Thread(target=write) for _ in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return run_id


def problems(engine: Engine, order: Order, run_id: str) -> list[str]:
    """What is wrong with the state that an order came to; nothing: []."""
    with reading(engine) as conn:
        run = conn.execute(select(dispatch).where(dispatch.c.id == run_id)).one()
        rows = conn.execute(select(job).where(job.c.dispatch_id == run_id)).all()
        views = jobs.views(conn, run_id)
    found = []
    kept = order.kept
    wanted_jobs = {(name, attempt) for name, attempt, _ in kept}
    if sorted((row.name, row.attempt) for row in rows) != sorted(wanted_jobs):
        found.append(f"jobs {[(r.name, r.attempt) for r in rows]}, not {sorted(wanted_jobs)}")
    for row in rows:
        key = (row.name, row.attempt)
        ended, started = (*key, "end") in kept, (*key, "start") in kept
        told = (row.status, row.conclusion, row.start_known)
        right = ("completed", order.ends[key], started) if ended else ("in_progress", None, True)
        if told != right:
            found.append(f"{key}: {told}, not {right}")
    newest = {name: max(a for n, a in wanted_jobs if n == name) for name, _ in wanted_jobs}
    done = all((name, attempt, "end") in kept for name, attempt in newest.items())
    worst = max((order.ends[item] for item in newest.items()), key=SEVERITY.__getitem__)
    right_run = ("completed", worst) if done else ("running", None)
    if (run.state, run.conclusion) != right_run:
        found.append(f"the dispatch is {run.state} {run.conclusion}, not {right_run}")
    whole = overall(views)
    if (whole.state, whole.conclusion) != (run.state, run.conclusion):
        found.append(f"the dispatch is {run.state} {run.conclusion}, its jobs say {whole.state} {whole.conclusion}")
    return found
