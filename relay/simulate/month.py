"""The simulation: events in, policy, selection, plan, shards, verdict, calls; nothing waits for a real clock."""

from __future__ import annotations

import gc
import heapq
import random
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from relay.domain.allowlist_entry import Allowlist, Entry
from relay.domain.policy import PriorRun, route
from relay.simulate.calls import Calls
from relay.simulate.outcome import Outcome, Percentiles
from relay.simulate.plans import PLANS, plans
from relay.simulate.pool import Pool, Work
from relay.simulate.scenario import Scenario
from relay.simulate.traffic import UPSTREAM, Arrival, arrivals

OWN_CI_S = 2700.0
"""Mean seconds of a run on a downstream's own CI; only what GitHub is told of it matters here."""


def simulate(scenario: Scenario) -> Outcome:
    """Plays the scenario's days, and what is under way at their end to its end."""
    collecting = gc.isenabled()
    gc.disable()  # millions of small objects and no cycles among those that are done with
    try:
        return _Month(scenario).play()
    finally:
        if collecting:
            gc.enable()


@dataclass(slots=True, eq=False)
class _Run:
    """A dispatch. ``works``: its selection, then its shards; ``open``: how many of those are not done."""

    id: str
    entry: Entry
    sha: str
    pushed: float
    works: list[Work] = field(default_factory=list)
    open: int = 0
    planned_at: float | None = None
    confirmed: bool = False
    over: bool = False


class _Month:
    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.heap: list[tuple[float, int, Callable[[float], None]]] = []
        self.order = count()
        self.now = 0.0
        self.rng = random.Random(f"{scenario.seed}:month")
        self.allowlist = Allowlist(tuple(_entries(scenario)))
        self.plans = plans(scenario)
        self.workers = Pool(scenario.pool, self.later, scenario.heartbeat_s)
        self.selectors = Pool(scenario.selectors, self.later, 0.0)
        self.calls = Calls(self.later, scenario.github_budget, scenario.call_s)
        self.runs: dict[int, dict[str, _Run]] = defaultdict(dict)
        self.last_push: dict[int, float] = {}
        self.rows: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.asked: dict[str, dict[int, float]] = {"workers": defaultdict(float), "selectors": defaultdict(float)}
        self.first: list[float] = []
        self.verdict: list[float] = []
        self.makespan: list[float] = []
        self.selecting: list[float] = []

    def later(self, at: float, what: Callable[[float], None]) -> None:
        heapq.heappush(self.heap, (at, next(self.order), what))

    def play(self) -> Outcome:
        scenario = self.scenario
        for arrival in arrivals(scenario):
            self._until(arrival.at)
            self._arrived(arrival)
        self._until(scenario.seconds)
        unfinished = self.counts["worker-runs"] - self.counts["ended"] - self.counts["superseded-on-workers"]
        self._until(float("inf"))
        span = max(scenario.seconds, self.now) * scenario.pool
        return Outcome(
            scenario=scenario,
            events=self.rows["delivery"],
            runs=self.counts["worker-runs"],
            superseded=self.counts["superseded-on-workers"],
            unfinished=unfinished,
            partial=self.counts["partial"],
            first=Percentiles.of(self.first),
            verdict=Percentiles.of(self.verdict),
            makespan=Percentiles.of(self.makespan),
            selecting=Percentiles.of(self.selecting),
            calls_wait=Percentiles.of(self.calls.waits),
            busy=self.workers.busy_s / span,
            wasted=self.workers.wasted_s / self.workers.busy_s if self.workers.busy_s else 0.0,
            peak=max(self.asked["workers"].values(), default=0) / 3600 / scenario.pool,
            selectors_peak=max(self.asked["selectors"].values(), default=0) / 3600 / scenario.selectors,
            calls=sum(self.calls.hours.values()),
            worst_hour=self.calls.most_in_an_hour(),
            rows=dict(self.rows),
        )

    def _until(self, at: float) -> None:
        while self.heap and self.heap[0][0] <= at:
            self.now, _, what = heapq.heappop(self.heap)
            what(self.now)

    def _arrived(self, arrival: Arrival) -> None:
        event, now = arrival.event, arrival.at
        self.rows["delivery"] += 1
        mine = self.runs[event.number]
        prior = [PriorRun(r.id, r.entry.key, r.entry.executor, r.sha, True, False) for r in mine.values()]
        recent = now - self.last_push.get(event.number, float("-inf")) < self.scenario.debounce_s
        wait = self.scenario.debounce_s if event.action == "synchronize" and recent else 0.0
        if event.action != "closed":
            self.last_push[event.number] = now
        for decision in route(event, self.allowlist, prior):
            if decision.run is not None:
                self._ended(mine.pop(decision.run), now)
            elif decision.action == "dispatch" and decision.entry is not None and decision.code == "dispatched":
                run = _Run(
                    f"{event.number}:{event.head_sha[:8]}:{decision.entry.key}", decision.entry, event.head_sha, now
                )
                mine[run.id] = run
                self.rows["dispatch"] += 1
                self.rows["job"] += 1
                self.later(now + wait, lambda at, run=run, number=event.number: self._dispatched(run, number, at))  # type: ignore[misc]
            elif decision.action == "dispatch" and decision.entry is not None:
                self._call(decision.entry.repo, now)
        if event.action == "closed":
            self.runs.pop(event.number, None)

    def _ended(self, run: _Run, now: float) -> None:
        """Superseded or cancelled: nobody wants it any more."""
        run.over = True
        if run.entry.executor == "workers":
            self.counts["superseded-on-workers"] += 1
            for work in run.works:
                pool = self.selectors if work is run.works[0] else self.workers
                pool.cancel(work, now)
            run.works.clear()
        else:
            self._call(run.entry.repo, now)  # its run is cancelled
        self._checked(run, now)

    def _dispatched(self, run: _Run, number: int, now: float) -> None:
        if run.over:
            return
        self._checked(run, now)
        if run.entry.executor == "github":
            self._call(run.entry.repo, now)
            self.later(now + self.rng.expovariate(1 / OWN_CI_S), lambda at: self._reported(run, number, at))
            return
        self.counts["worker-runs"] += 1
        self._count("selectors", now, self.scenario.select_s)
        work = Work(self.scenario.select_s, now, lambda at: self._selected(run, number, at))
        run.works.append(work)
        self.selectors.add(work, now)

    def _reported(self, run: _Run, number: int, now: float) -> None:
        """A downstream's own CI is done: started and completed were reported, each to the dashboard and the check."""
        if run.over:
            return
        run.over = True
        self.runs[number].pop(run.id, None)
        self.rows["outbox"] += 2
        for _ in range(2):
            self._checked(run, now)

    def _selected(self, run: _Run, number: int, now: float) -> None:
        made = self.plans[int(run.sha[:8], 16) % PLANS]
        run.planned_at = now
        self.selecting.append(now - run.pushed)
        self.counts["partial"] += bool(made.left_out)
        self.rows["plan"] += 1
        self.rows["decision"] += made.tests
        self.rows["result"] += made.variants
        self._checked(run, now)
        self._shards(run, made.shards, number, now)

    def _shards(self, run: _Run, seconds: tuple[float, ...], number: int, now: float) -> None:
        run.open = len(seconds)
        self.rows["shard"] += len(seconds)
        self._count("workers", now, sum(seconds))
        for one in seconds:
            work = Work(one, now, lambda at: self._shard_done(run, number, at))
            run.works.append(work)
            self.workers.add(work, now)

    def _shard_done(self, run: _Run, number: int, now: float) -> None:
        run.open -= 1
        if run.open or run.over:
            return
        scenario = self.scenario
        if not run.confirmed and self.rng.random() < scenario.failing_share:
            run.confirmed = True  # the base, and each failure alone
            again = scenario.variants * scenario.confirm_share
            self.rows["result"] += round(2 * again)
            self._shards(run, (again * scenario.variant_s + scenario.lease_s,) * 2, number, now)
            return
        run.over = True
        assert run.planned_at is not None
        self.runs[number].pop(run.id, None)
        self.counts["ended"] += 1
        began = [work.began for work in run.works[1:] if work.began is not None]
        run.works.clear()
        self.first.append(min(began) - run.pushed)
        self.verdict.append(now - run.pushed)
        self.makespan.append(now - run.planned_at)
        self.rows["outbox"] += 2  # the dashboard's rows
        self._checked(run, now)

    def _count(self, pool: str, now: float, seconds: float) -> None:
        self.asked[pool][int(now // 3600)] += seconds

    def _checked(self, run: _Run, now: float) -> None:
        """One more state of its check run, where it has one."""
        if run.entry.level == "L4":
            self._call(UPSTREAM, now)

    def _call(self, repo: str, now: float) -> None:
        self.rows["outbox"] += 1
        self.calls.ask(repo.partition("/")[0], now, lambda at: None)


def _entries(scenario: Scenario) -> list[Entry]:
    """The downstreams, those on our workers first; the checks of L4 go round both kinds."""
    found = []
    every = max(1, scenario.downstreams // max(1, scenario.level4))
    left = scenario.level4
    for index in range(scenario.downstreams):
        blocking = left > 0 and index % every == 0
        left -= blocking
        repo = f"vendor-{index}/backend"
        executor = "workers" if index < scenario.on_workers else "github"
        found.append(Entry(repo, repo, "L4" if blocking else "L2", device=f"device{index}", executor=executor))
    return found
