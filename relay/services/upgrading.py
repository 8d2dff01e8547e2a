"""One upgrade worked out: both releases compared, triaged, planned, and the configs' edits; kept whole by content.

What is kept is the report, as plain values: the command prints it, the relay stores it, the pages read it.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from hashlib import sha256
from typing import Any

import relay
from relay.services.device_configs import DeviceConfigs
from relay.upgrade_report import to_value
from selector.discover import take
from selector.discover.cache import InventoryCache
from selector.discover.diff import Side, compare
from selector.discover.inventory import without_collector
from selector.discover.records import FORMAT as RECORDS
from selector.model import OpDatabase, Tree
from selector.opdb import to_json
from selector.plan import Budget, WorkerOffer
from selector.plan.reconfigure import reconfigure
from selector.plan.upgrade import plan_upgrade
from selector.triage.device_use import FORMAT as USES
from selector.triage.engagement import Uses

FORMAT = f"upgrade1-{relay.__version__}"
"""of the kept report; it grows with what the comparison, triage and plan say about the same trees"""


@dataclass(frozen=True, slots=True)
class Release:
    """One side: a commit, a release or a folder by its ``name``."""

    name: str
    tree: Tree
    opdb: OpDatabase | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """``value``: all that is known, plain (``relay.upgrade_report.to_value``); ``kept``: it was worked out before."""

    value: dict[str, Any]
    kept: bool


def report(
    old: Release,
    new: Release,
    device: DeviceConfigs,
    offers: Sequence[WorkerOffer],
    budget: Budget,
    today: date,
    cache: InventoryCache | None = None,
) -> Report:
    """The report on ``old`` to ``new``. TreeError, NoWorker, ConfigError for what cannot be compared or run."""
    began = time.perf_counter()
    key = _key(old, new, device, offers, budget)
    value = _kept(cache, key)
    if value is not None:
        seconds = {"all": round(time.perf_counter() - began, 3)}
        return Report({**value, "from": old.name, "to": new.name, "seconds": seconds, "kept": True}, kept=True)
    with without_collector():
        value = _worked_out(old, new, device, offers, budget, today, cache)
    value["seconds"]["all"] = round(time.perf_counter() - began, 3)
    if cache is not None:
        cache.put(key, zlib.compress(json.dumps(value, separators=(",", ":")).encode(), 1))
    return Report({**value, "kept": False}, kept=False)


def _worked_out(
    old: Release,
    new: Release,
    device: DeviceConfigs,
    offers: Sequence[WorkerOffer],
    budget: Budget,
    today: date,
    cache: InventoryCache | None,
) -> dict[str, Any]:
    marks = [time.perf_counter()]
    before = Side(old.tree, take(old.tree, cache), old.opdb)
    # most files are the same: they are not read again
    after = Side(new.tree, take(new.tree, cache, before.inventory), new.opdb)
    marks.append(time.perf_counter())
    difference = compare(before, after)
    marks.append(time.perf_counter())
    upgrade = plan_upgrade(
        (old.name, before),
        (new.name, after),
        difference,
        device.capability,
        device.configs,
        offers,
        budget,
        uses=Uses(new.tree.read, new.tree.paths(), cache),
    )
    marks.append(time.perf_counter())
    edits = reconfigure(
        difference,
        (old.name, new.name),
        (before.inventory, after.inventory),
        {one.test for one in upgrade.relevant},
        device.configs,
        device.texts,
        today,
    )
    marks.append(time.perf_counter())
    steps = ("inventories", "compare", "plan", "configs")
    timings = {name: round(b - a, 3) for name, a, b in zip(steps, marks[:-1], marks[1:], strict=True)}
    return to_value(upgrade, edits, timings)


def _key(old: Release, new: Release, device: DeviceConfigs, offers: Sequence[WorkerOffer], budget: Budget) -> str:
    parts = [RECORDS, USES]
    for side in (old, new):
        parts += [f"{path}={content}" for path, content in sorted(side.tree.paths().items())]
        parts.append(sha256(to_json(side.opdb).encode()).hexdigest() if side.opdb is not None else "-")
    parts += [f"{source.name}\0{source.text}" for source in device.texts]
    parts += [repr(offer) for offer in offers] + [repr(budget), device.capability_text]
    return f"{FORMAT}-{sha256(chr(1).join(parts).encode('utf-8', 'surrogatepass')).hexdigest()[:40]}"


def _kept(cache: InventoryCache | None, key: str) -> dict[str, Any] | None:
    data = cache.get(key) if cache is not None else None
    if data is None:
        return None
    try:
        value: dict[str, Any] = json.loads(zlib.decompress(data))
    except (ValueError, zlib.error):
        return None  # damaged: worked out again and overwritten
    return value
