"""What is simulated: how much comes in, who hears of it, how long things take, and what the fleet is."""

from __future__ import annotations

from dataclasses import dataclass, fields

from relay.errors import SettingsError

DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Scenario:
    """One simulation. Counts are a month of 30 days; ``_s`` are seconds, ``_share`` fractions of one.

    ``stack_share`` of the pull requests come and are pushed as stacks of ``stack_size``. Of ``downstreams``,
    ``on_workers`` run on our workers and the others on their own CI; the first ``level4`` of them have check runs.
    ``pool``: emulator workers; ``selectors``: relay workers that select. ``select_s``: one selection;
    ``variant_s``: one variant; ``lease_s``: what a shard costs a worker besides its tests. ``failing_share``: runs with
    failures, which run ``confirm_share`` of their variants again on the base and alone. ``price``: of a worker's hour,
    in whatever currency.
    """

    days: float = 7.0
    pull_requests: int = 3000
    pushes: int = 6
    stack_share: float = 0.3
    stack_size: int = 30
    downstreams: int = 60
    on_workers: int = 12
    level4: int = 6
    pool: int = 100
    selectors: int = 4
    variants: int = 4000
    files: int = 40
    variant_s: float = 0.05
    lease_s: float = 1.5
    select_s: float = 1.5
    call_s: float = 0.15
    failing_share: float = 0.08
    confirm_share: float = 0.02
    debounce_s: float = 8.0
    heartbeat_s: float = 3.0
    shard_s: float = 20.0
    budget_minutes: float = 10.0
    github_budget: int = 150
    keep_details_days: float = 45.0
    keep_runs_days: float = 180.0
    price: float = 0.10
    seed: int = 1

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = (
                0
                if field.name.endswith("_share") or field.name in ("seed", "on_workers", "level4", "debounce_s")
                else 1e-9
            )
            if not value >= least:
                raise SettingsError(
                    f"simulate: {field.name} is {value}", f"give at least {'0' if least == 0 else 'more than 0'}"
                )
            if field.name.endswith("_share") and value > 1:
                raise SettingsError(f"simulate: {field.name} is {value}", "a share is at most 1")
        for name in ("on_workers", "level4"):
            if getattr(self, name) > self.downstreams:
                raise SettingsError(
                    f"simulate: {name} is {getattr(self, name)}, of {self.downstreams} downstreams",
                    f"raise downstreams or lower {name}",
                )

    @property
    def seconds(self) -> float:
        return self.days * DAY_S
