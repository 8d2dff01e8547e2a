"""Shards: the wire form of a plan, and of the base comparison that a verdict asks for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, Row

from relay.queue.names import shard_queue
from relay.services.device_configs import DeviceConfigs
from relay.settings import Settings
from relay.store import shards
from selector.model import RunPlan, Side, TestId


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


def add_base_shards(
    conn: Connection,
    settings: Settings,
    run: Row[Any],
    keys: Mapping[str, TestId],
    whole: Iterable[TestId],
    now: float,
) -> None:
    """Shards that run again on the commit that the change is compared with: failing variants (``keys``, with their
    tests), one shard for each of the head side that has some of them, and one shard of ``whole`` tests, whose files
    gave no variant."""
    wanted: dict[str, list[str]] = {}
    for key, test in keys.items():
        wanted.setdefault(str(test), []).append(key)
    imports = {str(test) for test in whole}
    specs = []
    for row in shards.of_dispatch(conn, run.id):
        if row.side != Side.HEAD.value:
            continue
        # by test and not by class: a class's tests may be spread over shards
        failing = [t for t in row.spec["tests"] if t in wanted]
        if failing:
            specs.append(
                {
                    **row.spec,
                    "commit": run.compare_sha,
                    "tests": failing,
                    "variants": sorted(key for test in failing for key in wanted.pop(test)),
                    "est_seconds": row.est_seconds,
                }
            )
        again = [t for t in row.spec["tests"] if t in imports]
        imports -= set(again)
        if again:
            specs.append({**row.spec, "commit": run.compare_sha, "tests": again, "est_seconds": row.est_seconds})
    shards.add(
        conn,
        dispatch_id=run.id,
        side=Side.BASE.value,
        queue=shard_queue(run.device or settings.device),
        specs=specs,
        now=now,
    )
