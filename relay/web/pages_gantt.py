"""Where a run's time went, as bars on one line of time. Pure: from the view of a run to shares of its width."""

from __future__ import annotations

from math import ceil
from typing import Any

from relay.store.views_parts import CLOSED
from relay.web.pages_text import SIDES, duration

Map = dict[str, Any]
STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)
TICKS = 6
LABELS = {"head": "change", "base": "base", "again": "again", "base-again": "base again", "trace": "traced"}
"""What a bar says of itself where it is wide enough."""
LEAST = 0.4
"""Percent of the width under which a bar could not be seen."""


def gantt(run: Map, shards: list[Map], jobs: list[Map], now: float) -> Map | None:
    """Lanes of bars: shards by worker, or a downstream's jobs by name. None: nothing has begun yet.

    ``{seconds, ticks: [{at, label}], lanes: [{name, bars: [{at, width, state, title, label, id}]}]}``; ``at`` and
    ``width`` are percent of the width, a bar that still runs ends at ``now``.
    """
    begun = [s for s in shards if s["started_at"] is not None]
    if begun:
        lanes = _shard_lanes(begun, now)
    else:
        lanes = _job_lanes([j for j in jobs if j["queued_at"] is not None or j["started_at"] is not None], now)
    bars = [bar for lane in lanes for bar in lane["bars"]]
    if not bars:
        return None
    first = min(bar["start"] for bar in bars)
    span = max(max(bar["end"] for bar in bars) - first, 0.001)
    for bar in bars:
        start, end = bar.pop("start"), bar.pop("end")
        bar["at"] = round(100 * (start - first) / span, 3)
        bar["width"] = round(max(LEAST, 100 * (end - start) / span), 3)
    # beyond the last step, whole multiples of it: a run may be told years late
    step = next((one for one in STEPS if span / one <= TICKS), STEPS[-1] * ceil(span / STEPS[-1] / TICKS))
    ticks = [
        {"at": round(100 * n * step / span, 3), "label": duration(n * step).replace(".0 s", " s") if n else "0"}
        for n in range(int(span / step) + 1)
    ]
    return {"seconds": span, "ticks": ticks, "lanes": lanes}


def _shard_lanes(shards: list[Map], now: float) -> list[Map]:
    by_worker: dict[str, list[Map]] = {}
    for s in sorted(shards, key=lambda s: float(s["started_at"])):
        end = s["finished_at"] if s["finished_at"] is not None else max(now, s["started_at"])
        name = f"{s['index'] + 1}, {SIDES[s['side']]}"
        took = duration(end - s["started_at"])
        title = f"{name}: {s['state']}, {took}, {s['variants_done']} variants of {s['tests']} tests"
        by_worker.setdefault(s["worker"] or "no worker", []).append(
            {"start": s["started_at"], "end": end, "state": s["state"], "title": title,
             "label": LABELS[s["side"]], "id": s["id"], "side": s["side"]}
        )  # fmt: skip
    return [{"name": name, "bars": bars} for name, bars in sorted(by_worker.items())]


def _job_lanes(jobs: list[Map], now: float) -> list[Map]:
    lanes = []
    for j in jobs:
        queued, started, ended = j["queued_at"], j["started_at"], j["completed_at"]
        bars = []
        until = started if started is not None else ended if ended is not None else now
        if queued is not None and until > queued:
            title = f"{j['name']}: waited {duration(until - queued)}"
            bars.append(_job_bar(j, queued, until, "queued", title))
        if started is not None:
            end = ended if ended is not None else max(now, started)
            word = j["conclusion"] or j["status"]
            bars.append(_job_bar(j, started, end, word, f"{j['name']}: {word}, {duration(end - started)}"))
        lanes.append({"name": j["name"], "bars": bars})
    return lanes


def _job_bar(job: Map, start: float, end: float, state: str, title: str) -> Map:
    return {"start": start, "end": max(start, end), "state": state, "title": title, "label": "", "id": job["id"],
            "side": ""}  # fmt: skip


def parts_of_time(run: Map, now: float) -> list[Map]:
    """From the event to the answer: ``[{name, seconds, at, share}]``, shares in percent; empty where nothing began."""
    end = run["closed_at"] if run["closed_at"] is not None else now if run["state"] not in CLOSED else None
    asked = run["created_at"]
    if end is None or asked >= end:
        return []
    if run["executor"] == "workers":
        marks = [
            ("select", asked, run["selected_at"]),
            ("wait for a worker", run["selected_at"] or asked, run["started_at"]),
            ("run", run["started_at"], run["ran_at"]),
            ("verify and report", run["ran_at"], run["closed_at"]),
        ]
    else:
        marks = [("wait for its CI", asked, run["started_at"]), ("run", run["started_at"], run["closed_at"])]
    whole = end - asked
    found = []
    for name, start, stop in marks:
        if start is None:
            continue
        seconds = max(0.0, (stop if stop is not None else end) - start)
        at = round(100 * max(0.0, start - asked) / whole, 3)
        found.append({"name": name, "seconds": seconds, "at": at, "share": round(100 * seconds / whole, 3)})
        if stop is None:
            break
    return found


def seconds_left(run: Map, shards: list[Map], done: float, now: float) -> float | None:
    """An estimate of what the head side still takes: the pace so far where a tenth is done, else what the plan thought
    each shard takes, shared among the workers that hold one. None: not running, or nothing to go by."""
    if run["state"] != "running" or run["started_at"] is None:
        return None
    head = [s for s in shards if s["side"] == "head"]
    if not head:
        return None
    elapsed = max(0.0, now - float(run["started_at"]))
    if done >= 0.1:
        return round(elapsed * (1 - done) / done, 1)
    at_once = max(1, len({s["worker"] for s in head if s["state"] == "leased"}))
    return round(max(0.0, sum(float(s["est_seconds"]) for s in head) * (1 - done) / at_once), 1)
