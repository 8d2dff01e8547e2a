"""Plans of the size that the scenario says, made by the product's planner out of tests that do not exist."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache

from relay.simulate.scenario import Scenario
from selector.configs import ConfigSource, ReuseConfigs, load_capability, load_configs
from selector.model import Change, FileChange, TestId
from selector.plan import Budget, History, RelevantTest, WorkerOffer, plan

PLANS = 24
"""How many different ones there are; runs take one by their commit."""
TESTS_A_FILE = 10
_SHEET = "capability: {name: simulated, device: simulated, dtypes: [float32]}"
_CONFIG = """\
test_suite_config:
  files:
    - path: ${TORCH_ROOT}/test/test_*.py
      unlisted_test_mode: mandatory_success
"""


@dataclass(frozen=True, slots=True)
class Planned:
    """``shards``: seconds of each; ``variants`` that run in all; ``left_out``: tests for which the budget was too
    small; ``tests``: decided on."""

    shards: tuple[float, ...]
    variants: int
    tests: int
    left_out: int


@cache
def _configs() -> ReuseConfigs:
    return load_configs([ConfigSource("simulated.yaml", _CONFIG)])


def plans(scenario: Scenario) -> list[Planned]:
    """PLANS plans for the scenario's pool. Files differ in size as upstream's do: a few hold most of the variants."""
    capability = load_capability(_SHEET, "capability.yaml")
    budget = Budget(scenario.budget_minutes * 60, scenario.shard_s, scenario.pool)
    change = Change("b" * 40, "h" * 40, (FileChange("torch/_refs/__init__.py", "modified", old=b"", new=b"x"),))
    made = []
    for number in range(PLANS):
        tests = _tests(random.Random(f"{scenario.seed}:{number}"), scenario)
        known = History(file_variant_seconds={one.test.file: scenario.variant_s for one in tests})
        offers = (WorkerOffer("2.13.0", ("overlay",)),)
        run, decisions = plan(tests, change, capability, _configs(), offers, budget, known)
        left = {one.test for one in run.left_out}
        made.append(
            Planned(
                tuple(spec.est_seconds + scenario.lease_s for spec in run.shards),
                sum(test.est_variants for test in tests if test.test not in left),
                len(decisions),
                len(left),
            )
        )
    return made


def _tests(rng: random.Random, scenario: Scenario) -> list[RelevantTest]:
    weights = [rng.lognormvariate(0, 1.2) for _ in range(scenario.files * TESTS_A_FILE)]
    whole = sum(weights)
    return [
        RelevantTest(
            TestId(f"test/test_{index % scenario.files}.py", "TestX", f"test_{index}"),
            ("op-name",),
            rng.random(),
            max(1, round(scenario.variants * weight / whole)),
        )
        for index, weight in enumerate(weights)
    ]
