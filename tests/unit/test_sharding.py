"""A plan's shards as the workers get them."""

from __future__ import annotations

from pathlib import Path

from relay.services.device_configs import load_device
from relay.services.sharding import head_specs
from relay.worker.spec import parse_shard
from selector.model import Mode, PlannedTest, RunPlan, Runtime, RuntimeKind, ShardSpec, TestId

A, B = (TestId("test/test_x.py", "TestX", name) for name in ("test_a", "test_b"))
CONFIGS = Path(__file__).parents[2] / "test_configs" / "spyre"


def test_a_shard_carries_the_limits_of_its_tests_and_a_worker_reads_them() -> None:
    planned = [
        PlannedTest(A, Mode.MANDATORY_SUCCESS, 1.0, 1.0, ("op-info",), "", ("add", "_refs.add")),
        PlannedTest(B, Mode.MANDATORY_SUCCESS, 1.0, 1.0, ("helper",)),
    ]
    shards = (ShardSpec(0, (A,), 1.0), ShardSpec(1, (B,), 1.0))
    plan = RunPlan(Runtime(RuntimeKind.TESTS_ONLY, "2.13.0"), tuple(planned), shards)
    first, second = head_specs(plan, "c" * 40, load_device(CONFIGS), "spyre")
    assert parse_shard(first).ops == {A: frozenset({"add", "_refs.add"})}
    assert second["ops"] == {}
