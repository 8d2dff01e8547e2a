"""Shards: the wire form of a plan. What a verdict asks for besides is relay.services.confirming's."""

from __future__ import annotations

from typing import Any

from relay.services.device_configs import DeviceConfigs
from selector.model import RunPlan


def head_specs(plan: RunPlan, commit: str, device: DeviceConfigs, device_name: str) -> list[dict[str, Any]]:
    """The wire form of the plan's shards, as docs/worker-api.md describes it."""
    limited = {planned.test: planned.ops for planned in plan.tests if planned.ops}
    return [
        {
            "device": device_name,
            "commit": commit,
            "runtime": {
                "kind": plan.runtime.kind.value,
                "torch": plan.runtime.torch,
                "files": list(plan.runtime.files),
            },
            "capability": device.capability_text,
            "configs": [{"name": c.name, "text": c.text} for c in device.texts],
            "tests": [str(t) for t in spec.tests],
            "ops": {str(t): list(limited[t]) for t in spec.tests if t in limited},
            "variants": None,
            "est_seconds": spec.est_seconds,
        }
        for spec in plan.shards
    ]
