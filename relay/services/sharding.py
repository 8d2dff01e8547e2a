"""Shards: the wire form of a plan. What a verdict asks for besides is relay.services.confirming's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from relay.services.device_configs import DeviceConfigs
from selector.model import RunPlan


def head_specs(plan: RunPlan, commit: str, device: DeviceConfigs, device_name: str) -> list[dict[str, Any]]:
    """The wire form of the plan's shards, as docs/worker-api.md describes it."""
    limited = {str(planned.test): list(planned.ops) for planned in plan.tests if planned.ops}
    runtime = {"kind": plan.runtime.kind.value, "torch": plan.runtime.torch, "files": list(plan.runtime.files)}
    return [
        shard_spec(device_name, commit, runtime, device, list(map(str, part.tests)), part.est_seconds, limited)
        for part in plan.shards
    ]


def shard_spec(
    device_name: str,
    commit: str,
    runtime: Mapping[str, Any],
    device: DeviceConfigs,
    tests: Sequence[str],
    est_seconds: float,
    ops: Mapping[str, Sequence[str]],
) -> dict[str, Any]:
    """One shard. ``ops``: the op entries that tests are limited to, also of tests of other shards; ``est_seconds`` is
    no part of the wire."""
    return {
        "device": device_name,
        "commit": commit,
        "runtime": dict(runtime),
        "capability": device.capability_text,
        "configs": [{"name": c.name, "text": c.text} for c in device.texts],
        "tests": list(tests),
        "ops": {test: list(ops[test]) for test in tests if test in ops},
        "variants": None,
        "est_seconds": est_seconds,
    }
