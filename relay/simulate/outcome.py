"""What a simulation showed, and which part gives way first when more comes in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from relay.simulate.calls import HOURLY
from relay.simulate.scenario import Scenario

DATABASE_GB = 200.0
"""A database that one machine still serves and backs up without thought; an assumption."""
BYTES_A_ROW = {
    "delivery": 3300,
    "dispatch": 10700,
    "job": 780,
    "plan": 12400,
    "decision": 730,
    "shard": 2500,
    "result": 970,
    "outbox": 2300,
}
"""Measured, indexes included: tests/bench/row_bytes.py prints them of a database (docs/simulation.md)."""
DETAILS = ("plan", "decision", "shard", "result")


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Seconds."""

    p50: float
    p95: float
    p99: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Percentiles:
        """Nearest rank; zeros of nothing."""
        if not values:
            return cls(0.0, 0.0, 0.0, 0.0)
        ordered = sorted(values)
        p50, p95, p99 = (ordered[min(len(ordered) - 1, int(share * len(ordered)))] for share in (0.5, 0.95, 0.99))
        return cls(p50, p95, p99, ordered[-1])


@dataclass(frozen=True, slots=True)
class Limit:
    """``load``: the part's demand over what it has (1.0: it is full). ``mend``: what to do about it."""

    name: str
    load: float
    words: str
    mend: str

    @property
    def breaks_at(self) -> float:
        """How many times the scenario's traffic fills it."""
        return 1 / self.load if self.load > 0 else float("inf")


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one scenario. Times in seconds: ``first`` from the push to the first test, ``verdict`` from the push to the
    verdict, ``makespan`` from the plan to the verdict, ``selecting`` from the push to the plan. ``busy``: share of the
    pool's time that was used, ``wasted`` of it on runs that nobody wanted any more. ``peak``: the same in the hour of
    most demand, over 1 where more came than the pool can do. ``unfinished``: runs still going at the end."""

    scenario: Scenario
    events: int
    runs: int
    superseded: int
    unfinished: int
    partial: int
    first: Percentiles
    verdict: Percentiles
    makespan: Percentiles
    selecting: Percentiles
    calls_wait: Percentiles
    busy: float
    wasted: float
    peak: float
    selectors_peak: float
    calls: int
    worst_hour: tuple[str, int]
    rows: dict[str, int]

    @property
    def rows_a_day(self) -> float:
        return sum(self.rows.values()) / self.scenario.days

    @property
    def bytes_a_day(self) -> float:
        return sum(count * BYTES_A_ROW[table] for table, count in self.rows.items()) / self.scenario.days

    @property
    def database_gb(self) -> float:
        """What the database holds once retention and intake are even."""
        kept = 0.0
        for table, count in self.rows.items():
            days = self.scenario.keep_details_days if table in DETAILS else self.scenario.keep_runs_days
            kept += count / self.scenario.days * days * BYTES_A_ROW[table]
        return kept / 1e9

    @property
    def cost_a_month(self) -> float:
        """Of the pool, always on."""
        return self.scenario.pool * 24 * 30 * self.scenario.price

    @property
    def cost_busy(self) -> float:
        """Of the hours that it worked, as a pool that follows demand would cost at best."""
        return self.cost_a_month * self.busy

    def limits(self) -> list[Limit]:
        """Every part by how full it is, the fullest first."""
        s = self.scenario
        owner, most = self.worst_hour
        found = [
            Limit(
                "emulator workers",
                self.peak,
                f"{s.pool} workers, {self.peak:.0%} of them asked for in the hour of most demand",
                "more workers (they scale on queued + leased shards), a smaller budget_minutes, or fewer devices",
            ),
            Limit(
                "selection",
                self.selectors_peak,
                f"{s.selectors} relay workers, {self.selectors_peak:.0%} of them in the hour of most demand",
                "more relay workers: selections share nothing but the database",
            ),
            Limit(
                "GitHub calls an hour",
                most / HOURLY,
                f"{most:,} calls on {owner or 'nobody'} in its worst hour, of {HOURLY:,}",
                "fewer L4 downstreams (three check run calls each), or a second App",
            ),
            Limit(
                "GitHub writes a minute",
                most / 60 / s.github_budget,
                f"a call waits {self.calls_wait.p99:.0f} s at p99, {self.calls_wait.most:.0f} s at most",
                "nothing: the budget spreads a burst over minutes; what waits is late and not lost",
            ),
            Limit(
                "database",
                self.database_gb / DATABASE_GB,
                f"{self.bytes_a_day / 1e9:.2f} GB a day, {self.database_gb:.0f} GB kept, of {DATABASE_GB:.0f}",
                "a shorter keep_details_days: plans, decisions, shards and results are nearly all of it",
            ),
        ]
        return sorted(found, key=lambda one: -one.load)
