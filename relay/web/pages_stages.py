"""The timeline of a run: four stages and the run between them, from what is stored. Pure."""

from __future__ import annotations

from typing import Any

from relay.domain.words import plural
from relay.store.views_parts import CLOSED, FAILING
from relay.web.pages_text import duration

Map = dict[str, Any]


def stages(run: Map, plan: Map | None, outcomes: dict[str, dict[str, int]], shards: list[Map]) -> list[Map]:
    """``[{name, state, seconds, facts}]``; ``state`` is done, active, waiting or stopped, ``seconds`` None when it
    was not measured."""
    counts: Map = plan["counts"] if plan else {}
    timings: Map = plan["timings"] if plan else {}
    selected = plan is not None
    closed = run["state"] in CLOSED
    head = outcomes["head"]
    variants = sum(head.values())
    failing = sum(head.get(o, 0) for o in FAILING)

    def state(done: bool, active: bool) -> str:
        if done:
            return "done"
        if closed:
            return "stopped"
        return "active" if active else "waiting"

    selecting = state(selected, run["state"] == "selecting")
    ran = run["ran_at"] is not None
    concluded = run["state"] == "completed"
    head_shards = [s for s in shards if s["side"] == "head"]
    done_shards = sum(1 for s in head_shards if s["state"] in ("done", "failed"))
    running = [_fact(variants, "variant")]
    if head_shards:
        running.append(f"{done_shards} of {plural(len(head_shards), 'shard')}")
    if failing:
        running.append(_fact(failing, "failing", "failing"))
    first = _between(run["started_at"], run.get("first_failed_at"))
    if first is not None:
        running.append(f"first failure after {duration(first)}")
    verify = []
    base = sum(outcomes["base"].values())
    if base:
        verify.append(f"{plural(base, 'variant')} again on the base commit")
    return [
        {
            "name": "Discover",
            "asks": "Which tests can this change reach?",
            "state": selecting,
            "seconds": _sum(timings, "inventory", "discover"),
            "facts": _facts(counts, ("files", "changed file"), ("tests", "test", "tests in the tree"), ("impacted",)),
        },
        {
            "name": "Triage",
            "asks": "Which of them engage this device?",
            "state": "waiting" if selecting == "active" else selecting,
            "seconds": _sum(timings, "triage"),
            "facts": _facts(counts, ("relevant",), ("irrelevant",), ("ask", "unsure", "unsure")),
        },
        {
            "name": "Plan",
            "asks": "How do they run, within the budget?",
            "state": "waiting" if selecting == "active" else selecting,
            "seconds": _sum(timings, "plan"),
            "facts": _facts(counts, ("planned",), ("left_out", "left out", "left out")),
        },
        {
            "name": "Run",
            "asks": "On the emulated device.",
            "state": state(ran or concluded, run["state"] == "running"),
            "seconds": _between(run["started_at"], run["ran_at"]),
            "facts": running if selected else [],
        },
        {
            "name": "Verify",
            "asks": "What did running show?",
            "state": state(concluded, run["state"] in ("confirming", "verifying")),
            "seconds": _between(run["ran_at"], run["closed_at"]),
            "facts": verify,
        },
    ]


def progress(shards: list[Map]) -> float:
    """Share of the head side that is done, 0..1, weighted by the estimated seconds of its shards."""
    total = done = 0.0
    for s in shards:
        if s["side"] != "head":
            continue
        weight = max(s["est_seconds"], 0.001)
        total += weight
        done += weight * shard_progress(s)
    return round(done / total, 4) if total else 0.0


def shard_progress(shard: Map) -> float:
    """Tests that have reported something, as a share; a shard that is not over never reads as full."""
    if shard["state"] in ("done", "failed"):
        return 1.0
    return min(0.99, shard["tests_started"] / shard["tests"]) if shard["tests"] else 0.0


def _fact(n: int, one: str, many: str = "") -> str:
    return plural(n, one, many)


def _facts(counts: Map, *wanted: tuple[str, ...]) -> list[str]:
    facts = []
    for key, *words in wanted:
        if key in counts:
            one = words[0] if words else key
            many = words[1] if len(words) > 1 else (one + "s" if words else key)
            facts.append(plural(counts[key], one, many))
    return facts


def _sum(timings: Map, *keys: str) -> float | None:
    known = [timings[k] for k in keys if k in timings]
    return sum(known) if known else None


def _between(start: float | None, end: float | None) -> float | None:
    return None if start is None or end is None else max(0.0, end - start)
