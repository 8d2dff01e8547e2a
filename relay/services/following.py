"""A part of trunk's tests a day is run once more on the relay's workers, followed: what each runs, for the table that a
selection goes by. One step a call, by one process; the chore's memory says how far it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import structlog
from sqlalchemy import Engine, Row

from relay.artifacts import Artifacts, artifacts
from relay.errors import NotFound
from relay.mirror.git import GitTree
from relay.services import caches, exploring, nights, trunk_runs
from relay.services.device_configs import DeviceConfigs, load_device
from relay.services.sharding import shard_spec
from relay.services.traces import drop_pieces, drop_table, keep_table, pieces, read_table
from relay.services.upgrades import CLOSED, RUNTIME, torch_number
from relay.services.upstream import mirror
from relay.settings import Settings
from relay.store import shards, workers
from relay.store.db import reading
from relay.store.upgrades import run_states
from selector.agents import RulesAgent
from selector.discover import Impact, take
from selector.discover.fingerprints import Prints
from selector.discover.inventory import is_inventoried
from selector.discover.traced import Followed, Trace, TraceError, joined, minor
from selector.model import Mode, OpDatabase, PlannedTest, Side, TestId
from selector.opdb import from_value
from selector.pipeline import lifts_of
from selector.plan.following import current, due
from selector.plan.packing import pack
from selector.plan.planner import rank
from selector.trees import OnlyTree
from selector.triage import triage
from selector.triage.engagement import Uses

log = structlog.get_logger(__name__)
LOOK_S = 60.0
PATIENCE_S = 2 * 86400.0
"""A run that came to no end in so long is given up, with what it told."""
SPARE = 2.0
"""Times its seconds until the next shard is handed out: what is followed takes half of the workers, and a pull request
waits behind one shard at most."""
BRANCH = "main"
"""The branch whose tip is followed, where no `nightly_ref` is set."""
Memory = dict[str, Any]


def step(engine: Engine, settings: Settings, memory: Mapping[str, Any], now: float) -> Memory:
    """Takes in what yesterday's run told, and asks for today's. -> what is remembered: ``run`` that goes on, ``asked``:
    the day of it, ``table`` in use with its ``torch``, ``followed`` tests ``of`` how many. Raises Unavailable, after
    which everything is as it was."""
    found = dict(memory)
    if found.get("run"):
        with reading(engine) as conn:
            state = run_states(conn, [found["run"]]).get(found["run"])
        if state is not None and state not in CLOSED and now - found["at"] < PATIENCE_S:
            return found
        found = _taken_in(engine, settings, found, now)
    today = datetime.fromtimestamp(now, UTC).date().isoformat()
    return found if found.get("asked") == today else _asked(engine, settings, found, now)


# -------------------------------------------------------------------------------------------------------------- take in


def _taken_in(engine: Engine, settings: Settings, memory: Memory, now: float) -> Memory:
    store = artifacts(settings)
    with engine.begin() as conn:
        shards.cancel(conn, memory["run"], reason="it was not followed in time", now=now)
        rows = list(shards.of_dispatch(conn, memory["run"]))
    told = [_as_asked(row, trace, memory["asked"]) for row, trace in pieces(store, rows)]
    old = _table(store, memory)
    found = {**memory, "run": None}
    if told:
        table = joined([*([old] if old is not None else []), *told], memory["torch"], memory["of"])
        found |= _kept(store, memory, table)
        log.info("traces taken in", shards=len(told), of=len(rows), followed=len(table.tests), tests=table.of)
    drop_pieces(store, rows)
    return found


def _as_asked(row: Row[Any], trace: Trace, day: str) -> Trace:
    """A shard's trace with what its tests were when it was asked for."""
    prints = row.spec["follow"]
    return replace(trace, tests={test: Followed(prints.get(str(test), ""), day) for test in trace.tests})


def _kept(store: Artifacts, memory: Memory, table: Trace) -> Memory:
    """The part of the memory that says which table is in use. The one before the last goes: a selection may still be
    reading the last."""
    name = keep_table(store, table)
    last = memory.get("table")
    if name == last:
        return {}
    if memory.get("before") not in (None, name):
        drop_table(store, memory["before"])
    return {"table": name, "before": last, "torch": table.torch, "followed": len(table.tests), "of": table.of}


def _table(store: Artifacts, memory: Memory) -> Trace | None:
    """What is known so far. One that is gone or damaged is begun anew. Unavailable."""
    if not memory.get("table"):
        return None
    try:
        return read_table(store, memory["table"])
    except (NotFound, TraceError) as exc:
        log.error("the table of traces is begun anew", error=exc.message)
        return None


# ------------------------------------------------------------------------------------------------------------------ ask


def _asked(engine: Engine, settings: Settings, memory: Memory, now: float) -> Memory:
    today = datetime.fromtimestamp(now, UTC).date()
    with reading(engine) as conn:
        alive = workers.alive(conn, settings.device, now)
        torches = {w.torch for w in alive if RUNTIME in w.runtimes}
        torch = max(torches, key=torch_number) if torches else ""
        opdb = workers.load_opdb(conn, torch)
        learned = exploring.learn(conn, settings.device, now)
    if not torch:
        return memory  # the day is not over
    repo = mirror(settings)
    commit = nights.nights_of(repo, repo.tip(settings.nightly_ref or BRANCH), 1)[-1].sha
    repo.ensure(commit)
    repo.prepare(commit)
    device = load_device(settings.configs_dir)
    with GitTree(repo, commit) as tree:
        look = _Look(OnlyTree(tree, is_inventoried), device, from_value(opdb) if opdb is not None else None, settings)
        ranked = rank(look.relevant, device.configs, device.capability, learned.history)
    store = artifacts(settings)
    old = _table(store, memory)
    of = len(ranked)
    if old is None or minor(old.torch) != minor(torch):
        table = Trace(torch, (), of=of)
    else:
        names = {one.test for one in ranked}
        kept = current(look.print, {test: one for test, one in old.tests.items() if test in names})
        table = replace(joined([old.only(kept)], torch, of), of=of)
    chosen = due(ranked, table.tests, settings.trace_seconds, today)
    found = {**memory, "asked": today.isoformat(), "at": now, "torch": torch, "of": of}
    if old is not None:
        found |= _kept(store, memory, table)
    if not chosen:
        return found
    planned = [
        PlannedTest(one.test, Mode.MANDATORY_SUCCESS, 0.0, takes, ("trace",), device.configs.rule(one.test).source)
        for one, takes in chosen
    ]
    runtime: dict[str, Any] = {"kind": RUNTIME, "torch": torch, "files": []}
    specs = [
        {
            **shard_spec(settings.device, commit, runtime, device, [str(t) for t in part.tests], part.est_seconds, {}),
            "follow": {str(test): look.print(test) for test in part.tests},
        }
        for part in pack(planned, len(alive), settings.shard_seconds)
    ]
    apart = SPARE * settings.shard_seconds / max(len(alive), 1)
    with engine.begin() as conn:
        why = f"what {len(chosen)} tests run, {today.isoformat()}"
        found["run"] = trunk_runs.request(conn, settings, specs, commit, now, why=why, side=Side.TRACE, apart_s=apart)
    log.info("tests are followed", run=found["run"], tests=len(chosen), shards=len(specs), of=of, torch=torch)
    return found


class _Look:
    """The tests of a commit that are for the device, and their fingerprints."""

    def __init__(self, tree: OnlyTree, device: DeviceConfigs, opdb: OpDatabase | None, settings: Settings) -> None:
        cache = caches.cache(settings, "inventory")
        self.device, inventory = device, take(tree, cache)
        configs = device.configs
        self.relevant = triage(
            [Impact(test, (), (), 1.0) for test, _, _ in inventory.tests() if configs.runs(test)],
            inventory,
            device.capability,
            opdb,
            agent=RulesAgent(),
            lifts=lambda test: lifts_of(test, configs),
            uses=Uses(tree.read, tree.paths(), cache),
        ).relevant
        self._prints = Prints(inventory)

    def print(self, test: TestId) -> str:
        """KeyError for a test that is not there."""
        return self._prints.own(test).deep
