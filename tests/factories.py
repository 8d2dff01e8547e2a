"""Rows for tests that need a run in the database. Each function inserts through the real schema and returns the id."""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import Engine, insert

from relay.store.ids import new_id
from relay.store.schema import delivery, dispatch

SHA_HEAD, SHA_BASE = "a" * 40, "b" * 40


def make_delivery(engine: Engine, **over: Any) -> str:
    values = {
        "id": f"delivery-{new_id()}",
        "event": "pull_request",
        "action": "opened",
        "repo": "pytorch/pytorch",
        "received_at": time.time(),
        "state": "routed",
        **over,
    }
    with engine.begin() as conn:
        conn.execute(insert(delivery).values(**values))
    return values["id"]


def make_run(engine: Engine, **over: Any) -> str:
    """A dispatch of executor ``workers`` in state ``running``."""
    values = {
        "id": new_id(),
        "downstream": "torch-spyre/torch-spyre",
        "downstream_key": "torch-spyre/torch-spyre",
        "level": "L4",
        "device": "spyre",
        "oncalls": [],
        "executor": "workers",
        "event": "pull_request",
        "action": "opened",
        "upstream": "pytorch/pytorch",
        "pr_number": 7,
        "pr_title": "Change logit",
        "head_sha": SHA_HEAD,
        "base_sha": SHA_BASE,
        "compare_sha": SHA_BASE,
        "state": "running",
        "created_at": time.time(),
        **over,
    }
    values.setdefault("delivery_id", None)
    if values["delivery_id"] is None:
        values["delivery_id"] = make_delivery(engine)
    with engine.begin() as conn:
        conn.execute(insert(dispatch).values(**values))
    return values["id"]


def shard_spec(*tests: str, **over: Any) -> dict[str, Any]:
    return {
        "device": "spyre",
        "commit": SHA_HEAD,
        "runtime": {"kind": "tests-only", "torch": "2.13.0", "files": []},
        "capability": "",
        "configs": [],
        "tests": list(tests),
        "variants": None,
        "est_seconds": 1.0,
        **over,
    }


def result_line(variant: str = "test_b_spyre_float32", **over: Any) -> dict[str, Any]:
    return {
        "test": "test/test_x.py::TestA::test_b",
        "variant": variant,
        "op": None,
        "dtype": "float32",
        "mode": "mandatory_success",
        "outcome": "passed",
        "reason": None,
        "seconds": 0.01,
        "kernels": 3,
        "modelled_us": 10.0,
        "meter": {"bytes_read": 256, "bytes_written": 128, "sticks": 3},
        "message": None,
        "log_tail": None,
        **over,
    }
